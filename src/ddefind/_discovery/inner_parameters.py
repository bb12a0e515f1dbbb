r"""The parameters inside terms and known parts, such as the K and n of a Hill function:
their natural sizes, the values that a scan tries, and their bounds.

The K of $x / (K + x)$ is about as large as x, and the a of $e^{-a x}$ as 1 / x. This
follows from the formula f. If x is measured in another unit, each parameter p gets
another value, such that the change multiplies the formula by a power m of the units'
ratio and does nothing else:

$$\frac{\partial f}{\partial \log x} +
\sum_p e_p \frac{\partial f}{\partial \log p} = m f$$

everywhere. These are linear equations for the powers $e_p$; the size of p is the
product of the sizes of the states to its powers. Where they have no solution, as for
$e^{-a x} / (1 + x)$, the formula contains the unit of x, and the powers are not known.

A known part of $x'$ has the unit of x per time, so that m is given there, and time is
one more unit."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import ddefind as dd

from .._equation.expression import Call, Name, evaluate_formula, walk
from .library import Library
from .terms import Term, delay_names, scattered_points

_POINTS, _STEP = 24, 1e-4
# Residuals of the linear equations, and powers that are not determined, are below this.
_SMALL = 1e-5
# A scan tries exponents in this range, and other parameters up to a factor around their
# natural size.
_LOWEST_EXPONENT, _HIGHEST_EXPONENT = 0.7, 16.0
_WIDEST = 20.0
# Fits may leave the tried values by this factor; parameters of known parts, which may
# have any sign, are below this multiple of their natural size.
_BEYOND, _LARGEST_KNOWN = 4.0, 1e4
# The most tried values of a parameter of a term with one, two, three or more of them.
_MOST_VALUES = (24, 12, 6, 4)
# The number of values in a range, from which a scan takes some.
_FINE = 49

Variables = Mapping[str, np.ndarray]


def powers_as_factors(
    term: Term, states: Sequence[str], delays: Sequence[str]
) -> dict[str, float]:
    """Return the parameters that only multiply a term by a power, and this power: 1 for
    the z of z * x, -1 for the K of x^2 / K, and 0 for parameters with which the term
    does not change smoothly, as the K of where(x > K, 1, 0)."""
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
    """Return the power of the size of each state in the size of each of the term's
    parameters, [parameters, states]; NaN where it is not known."""
    units = {x: [x, *(f"{x}(t - {tau})" for tau in delays)] for x in states}
    f, slopes = _derivatives(term.values, [[p] for p in term.parameters], units)
    along, f = slopes[len(term.parameters) :], f[:, None]
    by_parameter = slopes[: len(term.parameters)].T
    # A parameter that is a factor has no size: its coefficient compensates for it.
    solved = [_solved(f, column) for column in by_parameter.T]
    is_factor = np.array([np.isfinite(each).all() for each in solved], bool)
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
    """Return the powers of the sizes of the states, and of the rate of change, in the
    size of each parameter of known `parts` of equations, [parameters, states + 1]."""
    units = {x: [x] for x in states}
    groups = [[p] for p in parameters]
    found = [_derivatives(part, groups, units) for part in parts.values()]
    matrix = np.concatenate([slopes[: len(parameters)].T for _, slopes in found])
    powers = np.zeros((len(parameters), len(states) + 1))
    for s, state in enumerate(states):
        right = [
            (f if changing == state else 0.0) - slopes[len(parameters) + s]
            for changing, (f, slopes) in zip(parts, found)
        ]
        powers[:, s] = _solved(matrix, np.concatenate(right))
    powers[:, -1] = _solved(matrix, np.concatenate([f for f, _ in found]))
    return powers


def _derivatives(
    formula: Callable[[Variables], np.ndarray],
    parameters: Sequence[Sequence[str]],
    units: Mapping[str, Sequence[str]],
) -> tuple[np.ndarray, np.ndarray]:
    """Return values of a formula at random points, and its derivatives for the
    logarithms of groups of its arguments, [groups, points]: parameters, then units."""
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
    """Return values of a formula, and its derivatives for the logarithms of groups of
    its arguments, [groups, points]."""

    def moved(group: Sequence[str], step: float) -> np.ndarray:
        return formula({**point, **{n: point[n] * np.exp(step) for n in group}})

    with np.errstate(all="ignore"):
        slopes = [(moved(g, _STEP) - moved(g, -_STEP)) / (2 * _STEP) for g in groups]
    f = formula(point)
    return f, np.array(slopes).reshape(len(groups), len(f))


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the solution of linear equations, the smallest if there are many; NaN if
    there is none."""
    found = np.full(matrix.shape[1], np.nan)
    if not (np.isfinite(matrix).all() and np.isfinite(right).all()):
        return found
    solution = np.linalg.lstsq(matrix, right, rcond=_SMALL)[0]
    size = max(np.abs(right).max(), np.abs(matrix).max(initial=0.0))
    if np.abs(matrix @ solution - right).max() <= _SMALL * size:
        found[:] = np.round(solution, 3)
    return found


class InnerParameters(NamedTuple):
    """The range of each inner parameter, and the rows of values of a scan.

    `names`, `lower`, `upper` and `is_fixed` have one element for each parameter. The
    scan tries the `rows` [C, parameters]. `term` is the number of the term of each row,
    or -1 for the first row, which serves the terms without parameters."""

    names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    is_fixed: np.ndarray
    rows: np.ndarray
    term: np.ndarray

    @property
    def typical(self) -> np.ndarray:
        """The middle of each range."""
        return self.rows[0]


class _Range(NamedTuple):
    """The tried values of a parameter, its typical value, and its bounds in fits."""

    tried: np.ndarray
    typical: float
    lower: float
    upper: float


def inner_parameters(
    library: Library, x: np.ndarray, rate: float, settings: Mapping[str, Any]
) -> InnerParameters:
    """Return the ranges of a scan, given the measured values, the `rate` at which they
    change, and the user's `settings`."""
    names, size = library.parameters, np.abs(x)
    median, largest = np.nanmedian(size, axis=0), np.nanmax(size, axis=0)
    sizes = np.where(median > 0, median, np.where(largest > 0, largest, 1.0))
    ranges = _ranges(library, sizes, rate, settings)
    typical = np.array([ranges[name].typical for name in names])
    rows, owners, exponents = [typical], [-1], _exponents(library)
    for number, term in enumerate(library.terms):
        if not term.parameters:
            continue
        most = _MOST_VALUES[min(len(term.parameters), len(_MOST_VALUES)) - 1]
        counts = [
            max(most // 2, 3) if n in exponents else most for n in term.parameters
        ]
        scans = []
        for name, count in zip(term.parameters, counts):
            tried = ranges[name].tried
            even = np.linspace(0, len(tried) - 1, min(count, len(tried)))
            scans.append(tried[np.unique(np.round(even).astype(int))])
        for values in product(*scans):
            row = typical.copy()
            row[[names.index(name) for name in term.parameters]] = values
            rows.append(row)
            owners.append(number)
    return InnerParameters(
        names,
        np.array([ranges[name].lower for name in names]),
        np.array([ranges[name].upper for name in names]),
        np.array([isinstance(settings.get(name), dd.Fixed) for name in names], bool),
        np.array(rows),
        np.array(owners),
    )


def _ranges(
    library: Library, sizes: np.ndarray, rate: float, settings: Mapping[str, Any]
) -> dict[str, _Range]:
    """Return the range of each parameter."""
    found: dict[str, _Range] = {}
    exponents, delays = _exponents(library), delay_names(library.delays)
    for term in library.terms:
        powers = term_powers(term, library.states, delays)
        for name, row in zip(term.parameters, powers):
            if name in found:
                continue
            tried = _around(row, sizes)
            if name in exponents:
                tried = np.geomspace(_LOWEST_EXPONENT, _HIGHEST_EXPONENT, _FINE)
            found[name] = _within(tried, settings.get(name))
    known = [name for name in library.known_parameters if name not in found]
    if known:
        found |= _known_ranges(library, known, np.append(sizes, rate), settings)
    return found


def _around(powers: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return values around the size that follows from that of the states. A power that
    is not known can be one or minus one."""
    centres = [1.0]
    for power, size in zip(powers, sizes):
        factors = [size, 1 / size] if np.isnan(power) else [size**power]
        centres = [centre * factor for centre in centres for factor in factors]
    count = -(-_FINE // len(centres))
    scans = [np.geomspace(c / _WIDEST, c * _WIDEST, count) for c in sorted(centres)]
    return np.unique(np.concatenate(scans))


def _within(tried: np.ndarray, setting: Any) -> _Range:
    """Return the range within the user's bounds."""
    if isinstance(setting, dd.Fixed):
        value = float(setting.value)
        near = 1e-6 * max(abs(value), 1.0)
        return _Range(np.array([value]), value, value - near, value + near)
    low, high = tried[0], tried[-1]
    lower, upper = low / _BEYOND, high * _BEYOND
    if setting is not None and setting.lower is not None:
        lower = low = float(setting.lower)
        upper = max(upper, 2 * abs(lower))
        high = max(high, 2 * abs(low))
    if setting is not None and setting.upper is not None:
        upper = high = float(setting.upper)
        if low >= high:
            lower = low = 1e-3 * high if high > 0 else 1e3 * high
    kept = tried[(tried >= low) & (tried <= high)]
    if len(kept) < _FINE // 2:
        # Scans are logarithmic where they can be.
        kept = (
            np.geomspace(max(low, 1e-4 * high), high, _FINE)
            if low >= 0
            else np.linspace(low, high, _FINE)
        )
    return _Range(kept, float(kept[len(kept) // 2]), lower, upper)


def _known_ranges(
    library: Library,
    names: Sequence[str],
    sizes: np.ndarray,
    settings: Mapping[str, Any],
) -> dict[str, _Range]:
    """Return the ranges of parameters that stand in known parts alone, which are not
    scanned: fits begin at their natural size."""

    def values(formula: Any) -> Any:
        return lambda variables: np.asarray(evaluate_formula(formula, variables))

    parts = {state: values(formula) for state, formula in library.known.items()}
    powers = known_powers(parts, library.known_parameters, library.states)
    found = {}
    for name in names:
        row = np.nan_to_num(powers[library.known_parameters.index(name)])
        size, setting = float(np.prod(sizes**row)), settings.get(name)
        if isinstance(setting, dd.Fixed):
            found[name] = _within(np.array([size]), setting)
            continue
        lower, upper = -_LARGEST_KNOWN * size, _LARGEST_KNOWN * size
        if setting is not None:
            lower = lower if setting.lower is None else float(setting.lower)
            upper = upper if setting.upper is None else float(setting.upper)
        typical = size if lower < size < upper else (lower + upper) / 2
        found[name] = _Range(np.array([typical]), typical, lower, upper)
    return found


def _exponents(library: Library) -> set[str]:
    """Return the parameters that stand as exponents."""
    return {
        part.arguments[1].name
        for term in library.terms
        for part in walk(term.formula)
        if isinstance(part, Call) and part.function == "^" and len(part.arguments) == 2
        if isinstance(part.arguments[1], Name) and part.arguments[1].value is None
    }


def columns_of(
    library: Library, inner: InnerParameters
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the columns of a linear scan: the numbers of their rows of values, of
    their terms, and which two of them may stand in one equation.

    A term without parameters is one column; one with parameters has a column for each
    row of values. Two columns exclude each other if they are of the same term, or need
    different values of a shared parameter."""
    rows, terms = [], []
    for number in range(len(library.terms)):
        of_term = np.flatnonzero(inner.term == number).tolist() or [0]
        rows += of_term
        terms += [number] * len(of_term)
    row, term = np.array(rows), np.array(terms)
    compatible = term[:, None] != term
    for j, name in enumerate(inner.names):
        uses = np.array([name in library.terms[each].parameters for each in terms])
        value = inner.rows[row, j]
        same = np.isclose(value[:, None], value)
        compatible &= same | ~(uses[:, None] & uses)
    return row, term, compatible


def values_of(
    inner: InnerParameters, library: Library, chosen: Sequence[tuple[int, int]]
) -> np.ndarray:
    """Return the inner parameters of the chosen (row, term) pairs, typical ones
    elsewhere."""
    values = inner.typical.copy()
    for row, term in chosen:
        for name in library.terms[term].parameters:
            j = inner.names.index(name)
            values[j] = inner.rows[row, j]
    return values
