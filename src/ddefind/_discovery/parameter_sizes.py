r"""The natural size of the parameters inside terms and known parts, from their units.

The K of $x / (K + x)$ is about as large as x, and the a of $e^{-a x}$ as 1 / x. Which
it is follows from the formula f itself. If x is measured in another unit, each
parameter p gets another value, such that the formula is multiplied by a power m of the
change and nothing else:

$$\frac{\partial f}{\partial \log x} +
\sum_p e_p \frac{\partial f}{\partial \log p} = m f$$

everywhere. These are linear equations for the powers $e_p$; the size of p is the
product of the sizes of the states to its powers. Where they have no solution, as for
$e^{-a x} / (1 + x)$, the unit of x is in the formula, and the powers are not known.

A known part of $x'$ has the unit of x per time, so that there m is given, and time is
one more unit."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .terms import Term, scattered_points

_POINTS, _STEP = 24, 1e-4
# Residuals of the linear equations, and powers that are not determined, are below this.
_SMALL = 1e-5

Variables = Mapping[str, np.ndarray]


def powers_as_factors(
    term: Term, states: Sequence[str], delays: Sequence[str]
) -> dict[str, float]:
    """The parameters that only multiply a term by a power of theirs, with this power:
    one for the z of z * x, and minus one for the K of x^2 / K. It is zero for those
    with which the term does not change smoothly, as the K of where(x > K, 1, 0)."""
    points = scattered_points([term], states, delays)
    groups = [[name] for name in term.parameters]
    f, slopes = _slopes(term.values, groups, points)
    found = {}
    for name, slope in zip(term.parameters, slopes):
        usable = np.isfinite(f) & np.isfinite(slope) & (f != 0)
        power = slope[usable] / f[usable]
        if len(power) and np.ptp(power) <= _SMALL * np.abs(power).max():
            found[name] = float(np.round(power[0], 3))
    return found


def term_powers(term: Term, states: Sequence[str], delays: Sequence[str]) -> np.ndarray:
    """The power of the size of each state in the size of each of the term's parameters,
    [parameters, states]; NaN where it is not known."""
    units = {x: [x, *(f"{x}(t - {tau})" for tau in delays)] for x in states}
    f, slopes = _derivatives(term.values, [[p] for p in term.parameters], units)
    along, f = slopes[len(term.parameters) :], f[:, None]
    by_parameter = slopes[: len(term.parameters)].T
    # A parameter that is a factor has no size of its own: its coefficient makes up.
    is_factor = np.array([_fits(f, column[:, None]) for column in by_parameter.T], bool)
    powers = np.zeros((len(term.parameters), len(states)))
    matrix = np.concatenate([by_parameter[:, ~is_factor], -f], axis=1)
    for s, slope in enumerate(along):
        powers[~is_factor, s] = _solved(matrix, -slope)[:-1]
    return powers


def known_powers(
    parts: Mapping[str, Callable[[Variables], np.ndarray]],
    parameters: Sequence[str],
    states: Sequence[str],
) -> np.ndarray:
    """The powers of the sizes of the states, and of the rate of change, in the size of
    each parameter of known `parts` of equations, [parameters, states + 1]."""
    units = {x: [x] for x in states}
    groups = [[p] for p in parameters]
    found = [_derivatives(part, groups, units) for part in parts.values()]
    matrix = np.concatenate([slopes[: len(parameters)].T for _, slopes in found])
    powers = np.zeros((len(parameters), len(states) + 1))
    for s, state in enumerate(states):
        right = [
            (f if own == state else 0.0) - slopes[len(parameters) + s]
            for own, (f, slopes) in zip(parts, found)
        ]
        powers[:, s] = _solved(matrix, np.concatenate(right))
    powers[:, -1] = _solved(matrix, np.concatenate([f for f, _ in found]))
    return powers


def _derivatives(
    formula: Callable[[Variables], np.ndarray],
    parameters: Sequence[Sequence[str]],
    units: Mapping[str, Sequence[str]],
) -> tuple[np.ndarray, np.ndarray]:
    """Values of a formula at random points, and its derivatives for the logarithms of
    groups of its arguments, [groups, points]: parameters, then units."""
    random = np.random.default_rng(0)
    groups = [*parameters, *units.values()]
    names = [name for group in groups for name in group]
    point = {name: np.exp(0.4 * random.normal(size=_POINTS)) for name in names}
    return _slopes(formula, groups, point)


def _slopes(
    formula: Callable[[Variables], np.ndarray],
    groups: Sequence[Sequence[str]],
    point: Variables,
) -> tuple[np.ndarray, np.ndarray]:
    """Values of a formula, and its derivatives for the logarithms of groups of its
    arguments, [groups, points]."""

    def moved(group: Sequence[str], step: float) -> np.ndarray:
        return formula({**point, **{n: point[n] * np.exp(step) for n in group}})

    with np.errstate(all="ignore"):
        slopes = [(moved(g, _STEP) - moved(g, -_STEP)) / (2 * _STEP) for g in groups]
    f = formula(point)
    return f, np.array(slopes).reshape(len(groups), len(f))


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solution of linear equations, the smallest if there are many; NaN if there is
    none."""
    found = np.full(matrix.shape[1], np.nan)
    if not (np.isfinite(matrix).all() and np.isfinite(right).all()):
        return found
    solution = np.linalg.lstsq(matrix, right, rcond=_SMALL)[0]
    size = max(np.abs(right).max(), np.abs(matrix).max(initial=0.0))
    if np.abs(matrix @ solution - right).max() <= _SMALL * size:
        found[:] = np.round(solution, 3)
    return found


def _fits(matrix: np.ndarray, right: np.ndarray) -> bool:
    return bool(np.isfinite(_solved(matrix, right[:, 0])).all())
