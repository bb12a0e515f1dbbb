"""The adaptive solvers, as numbers.

`Tsit5` is for most equations. `Radau` is for stiff ones: those with processes that are
much faster than the solution, such as a reaction that is almost in equilibrium.
"""

from typing import Any, ClassVar, final

import equinox as eqx
import numpy as np

from ..._util import wording


def _number(value: Any) -> float:
    """Return a number, or NaN for what is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def _check_rtol(rtol: Any) -> float:
    """Return `rtol` as a number, or raise an error unless it is possible."""
    if not 1e-13 <= _number(rtol) <= 0.1:
        raise ValueError(
            f"{wording.TOLERANCE} must be a number from 1e-13 to 0.1, as 1e-6, got "
            f"{rtol!r}."
        )
    return _number(rtol)


def _check_atol(atol: Any) -> float | None:
    """Return `atol` as a number or None, or raise an error unless it is possible."""
    if atol is not None and not 0 < _number(atol) < np.inf:
        raise ValueError(f"`atol` must be a positive number or None, got {atol!r}.")
    return None if atol is None else _number(atol)


class AbstractAdaptive(eqx.Module):
    """A solver that chooses its steps so that the error in each of them is small.

    `rtol` is the tolerated error in a step relative to the state. `atol` is the
    tolerated absolute error; None means a thousandth of `rtol` times the value that the
    component has had in recent steps. `degree` is that of a piece of the solution, and
    `order` the power of the step with which its estimate of the error falls."""

    rtol: eqx.AbstractVar[float]
    atol: eqx.AbstractVar[float | None]
    degree: eqx.AbstractClassVar[int]
    order: eqx.AbstractClassVar[int]


@final
class Tsit5(AbstractAdaptive):
    """Tsitouras's explicit method of order 5, with adaptive steps.

    The solution between the nodes is a polynomial of degree 5, which has the order of
    the method: delayed states are as accurate as the solution itself.

    >>> Tsit5(rtol=1e-8).rtol
    1e-08
    """

    rtol: float = eqx.field(converter=_check_rtol, default=1e-6)
    atol: float | None = eqx.field(converter=_check_atol, default=None)
    degree: ClassVar[int] = 5
    order: ClassVar[int] = 5


@final
class Radau(AbstractAdaptive):
    """The implicit method Radau IIA of order 5, with adaptive steps, for stiff
    equations.

    It is L-stable: a fast process does not limit its steps.

    >>> Radau(rtol=1e-8).rtol
    1e-08
    """

    rtol: float = eqx.field(converter=_check_rtol, default=1e-6)
    atol: float | None = eqx.field(converter=_check_atol, default=None)
    degree: ClassVar[int] = 3
    order: ClassVar[int] = 4


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


@final
class Stages:
    r"""The stages of `Tsit5` with a piece of order 5, as numbers.

    Stages 0 to 6 are Tsitouras's. Stages 7 and 8 evaluate the equation on the piece of
    order 4, at two places inside of the step. Their difference from the slopes of that
    piece is its *residual*. The final piece, of degree 5, has their slopes, and those
    and the values at both ends.

    - `a`, [9, 9], and `c`, [9]: stage s is evaluated at $t + c_s h$ in the state
      $x + h \sum_j a_{sj} k_j$.
    - `piece`, [9, 5]: $c_m = h \sum_j p_{j,m-1} k_j$, for m = 1 to 5.
    - `error`, [9], and `residuals`, [2, 9]: weights of the slopes, too.
    """

    a: np.ndarray
    c: np.ndarray
    piece: np.ndarray
    error: np.ndarray
    residuals: np.ndarray

    def __init__(self):
        inside, places = np.array(_INSIDE), np.array(_PLACES)
        self.a = np.zeros((9, 9))
        for s, row in enumerate(_A):
            self.a[s, : len(row)] = row
        powers = places[:, None] ** np.arange(1, 5)
        self.a[7:, :7] = powers @ inside.T
        self.c = np.array([*_C, *places])
        self.error = np.array([*_ERROR, 0.0, 0.0])
        slopes = np.arange(1, 5) * places[:, None] ** np.arange(4)
        self.residuals = np.zeros((2, 9))
        self.residuals[:, :7] = slopes @ inside.T
        self.residuals[[0, 1], [7, 8]] -= 1
        self.piece = _hermite_weights(places, self.a[6])


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


# Radau IIA of order 5 (Hairer and Wanner, 1996): Z_s = x(t + c_s h) - x solve
# Z = h A F(x + Z).
_ROOT6 = np.sqrt(6)
RADAU_C = np.array([(4 - _ROOT6) / 10, (4 + _ROOT6) / 10, 1.0])
RADAU_A = np.array(
    [
        [
            (88 - 7 * _ROOT6) / 360,
            (296 - 169 * _ROOT6) / 1800,
            (-2 + 3 * _ROOT6) / 225,
        ],
        [
            (296 + 169 * _ROOT6) / 1800,
            (88 + 7 * _ROOT6) / 360,
            (-2 - 3 * _ROOT6) / 225,
        ],
        [(16 - _ROOT6) / 36, (16 + _ROOT6) / 36, 1 / 9],
    ]
)
# From the values Z to the coefficients of u, u^2, u^3.
RADAU_PIECE = np.linalg.inv(RADAU_C[:, None] ** np.arange(1, 4))
# The embedded error estimate: (mu / h - J)^-1 (F(t, x) + error . Z / h).
RADAU_MU = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)
RADAU_ERROR = np.array([-13 - 7 * _ROOT6, -13 + 7 * _ROOT6, -1]) / 3
# The value at the beginning of the step of the parabola through the three stages.
RADAU_BEGINNING = np.array(
    [
        np.prod([-RADAU_C[j] / (RADAU_C[i] - RADAU_C[j]) for j in range(3) if j != i])
        for i in range(3)
    ]
)
