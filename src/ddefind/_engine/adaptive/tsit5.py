"""`Tsit5`, the adaptive solver for most equations.

Stages 0 to 6 are Tsitouras's. Stages 7 and 8 evaluate the equation on the piece of
order 4, at two places inside of the step. Their difference from the slopes of that
piece is its *residual*. The final piece, of degree 5, has their slopes, and those and
the values at both ends.
"""

from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .explicit import AbstractExplicit, Stages
from .methods import check_atol, check_rtol

# Tsitouras (2011), Runge-Kutta pairs of order 5(4). Row s holds the weights of the
# slopes before stage s. The last stage is the slope at the end of the step.
_A = [
    [],
    [0.161],
    [-0.008480655492356989, 0.335480655492357],
    [2.8971530571054935, -6.359448489975075, 4.3622954328695815],
    [5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525],
    [
        5.86145544294642,
        -12.92096931784711,
        8.159367898576159,
        -0.071584973281401,
        -0.028269050394068383,
    ],
    [
        0.09646076681806523,
        0.01,
        0.4798896504144996,
        1.379008574103742,
        -3.290069515436081,
        2.324710524099774,
    ],
]
_C = [0.0, 0.161, 0.327, 0.9, 0.9800255409045097, 1.0, 1.0]
# The difference between the results of order 5 and 4.
_ERROR = [
    -0.00178001105222577714,
    -0.0008164344596567469,
    0.007880878010261995,
    -0.1447110071732629,
    0.5823571654525552,
    -0.45808210592918697,
    1 / 66,
]
# The solution within a step, of order 4: the weights of each slope for u to u^4.
_INSIDE = [
    [1.0, -2.763706197274826, 2.9132554618219126, -1.0530884977290216],
    [0.0, 0.13169999999999998, -0.2234, 0.1017],
    [0.0, 3.9302962368947516, -5.941033872131505, 2.490627285651253],
    [0.0, -12.411077166933676, 30.33818863028232, -16.548102889244902],
    [0.0, 37.50931341651104, -88.1789048947664, 47.37952196281928],
    [0.0, -27.896526289197286, 65.09189467479366, -34.87065786149661],
    [0.0, 1.5, -4.0, 2.5],
]
# Two places inside of the step at which the piece of order 4 is compared with the
# equation itself.
_PLACES = [0.5 - 3**0.5 / 6, 0.5 + 3**0.5 / 6]
# Derivatives of the solution have no control of their own: their errors are some times
# larger than those of the solution, for which this margin allows.
_MARGIN = 1.5


def _pair() -> Stages:
    """Return all stages, and the weights of the final piece."""
    inside, places = np.array(_INSIDE), np.array(_PLACES)
    a = np.zeros((9, 9))
    for s, row in enumerate(_A):
        a[s, : len(row)] = row
    powers = places[:, None] ** np.arange(1, 5)
    a[7:, :7] = powers @ inside.T
    return Stages(a, np.array([*_C, *places]), _hermite_weights(places, a[6]))


def _residuals() -> np.ndarray:
    """Return the weights of the slopes in the residuals, [2, 9]."""
    inside, places = np.array(_INSIDE), np.array(_PLACES)
    slopes = np.arange(1, 5) * places[:, None] ** np.arange(4)
    residuals = np.zeros((2, 9))
    residuals[:, :7] = slopes @ inside.T
    residuals[[0, 1], [7, 8]] -= 1
    return residuals


def _hermite_weights(places: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the weights of the slopes in u to u^5, for the polynomial that has the
    slopes of the stages 0, 6, 7 and 8, and a value at the end with the weights `end`.
    """
    m = np.arange(1, 6)
    conditions = np.stack([m * (u + 0.0) ** (m - 1) for u in (0, 1, *places)])
    conditions = np.concatenate([conditions, np.ones((1, 5))])
    weights = np.zeros((5, 9))
    weights[[0, 1, 2, 3], [0, 6, 7, 8]] = 1
    weights[4] = end
    return np.linalg.solve(conditions, weights).T


@final
class Tsit5(AbstractExplicit):
    """Tsitouras's explicit method of order 5, with adaptive steps.

    The solution between the nodes is a polynomial of degree 5, which has the order of
    the method: delayed states are as accurate as the solution itself.

    >>> Tsit5(rtol=1e-8).rtol
    1e-08
    """

    rtol: float = eqx.field(converter=check_rtol, default=1e-6)
    atol: float | None = eqx.field(converter=check_atol, default=None)
    order: ClassVar[int] = 5
    power: ClassVar[int] = 5
    highest: ClassVar[int] = 4
    pair: ClassVar[Stages] = _pair()
    residuals: ClassVar[np.ndarray] = _residuals()

    def error(self, slopes: jax.Array) -> jax.Array:
        """Return the error of the embedded method, or the residual of the piece of
        order 4 with a margin for derivatives, whichever is larger."""
        weights = np.array([*_ERROR, 0.0, 0.0])
        embedded = jnp.abs(jnp.sum(weights[:, None] * slopes, axis=0))
        residuals = jnp.sum(self.residuals[:, :, None] * slopes, axis=1)
        residual = jnp.max(jnp.abs(residuals), axis=0)
        return jnp.maximum(embedded, _MARGIN * residual)
