r"""The smooth curves of which a spline history is made.

With $k + 2$ equally spaced knots on $[-1, 0]$, the natural cubic splines that vanish at
both ends form a space of dimension k. Its basis $\phi_1, ..., \phi_k$ is that in which
both the roughness $\int \phi''^2$ and the sum of squares at the knots are diagonal. All
have the same roughness, with $|\phi_1| \le 1$; $\phi_j$ then looks like $\sin(j \pi
u) / j^2$. Where coefficients have Gaussian priors of equal widths, a curve is penalised
by its roughness."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

# The number of curves that bend a history that is asked for by name. It then has six
# knots.
USUAL_CURVES = 4


class TruncatedPowers(NamedTuple):
    r"""Natural cubic splines as $\beta_j u + \alpha_j + \sum_i \delta_{ji} (u -
    \kappa_i)_+^3$ with the knots $\kappa$, one row j for each curve."""

    knots: np.ndarray  # [k + 2]
    constant: np.ndarray  # [k]
    linear: np.ndarray  # [k]
    cubic: np.ndarray  # [k, k + 2]


@lru_cache
def spline_basis(k: int) -> TruncatedPowers:
    """The basis of k curves.

    >>> basis = spline_basis(4)
    >>> basis.knots
    array([-1. , -0.8, -0.6, -0.4, -0.2,  0. ])
    """
    knots = np.linspace(-1.0, 0.0, k + 2)
    h = 1 / (k + 1)
    # Second derivatives gamma at the inner knots: the roughness is gamma' R gamma.
    R = h * (2 / 3 * np.eye(k) + (np.eye(k, k=1) + np.eye(k, k=-1)) / 6)
    # The third derivative jumps at each knot by the change of the slope of gamma.
    hats = np.eye(k + 2)[:, 1:-1]
    slopes = np.diff(hats, axis=0) / h
    cubic = np.diff(slopes, axis=0, prepend=0.0, append=0.0) / 6
    at_knots = np.maximum(knots[:, None] - knots, 0.0) ** 3 @ cubic
    # The curve begins at zero, and a straight line brings its end to zero.
    linear = -at_knots[-1]
    at_knots += (knots[:, None] + 1) * linear
    # Whiten the roughness, then rotate.
    whiten = np.linalg.inv(np.linalg.cholesky(R)).T
    squares, rotate = np.linalg.eigh(whiten.T @ at_knots.T @ at_knots @ whiten)
    chosen = whiten @ rotate[:, np.argsort(-squares)]
    values = at_knots @ chosen
    # The sign is that of the first inner knot, so that it does not depend on rounding.
    chosen = chosen * np.sign(values[-2]) / _largest(knots, linear, cubic, chosen[:, 0])
    linear = linear @ chosen
    return TruncatedPowers(knots, linear, linear, (cubic @ chosen).T)


def _largest(
    knots: np.ndarray, linear: np.ndarray, cubic: np.ndarray, chosen: np.ndarray
) -> float:
    """The largest absolute value of one curve."""
    u = np.linspace(-1.0, 0.0, 201)
    powers = np.maximum(u[:, None] - knots, 0.0) ** 3
    return float(np.max(np.abs((u + 1) * (linear @ chosen) + powers @ cubic @ chosen)))
