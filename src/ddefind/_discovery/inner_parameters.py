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

from .._equation.expression import Call, Name, walk
from .library import Library, Term, delay_names, scattered_points

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
    points, found = scattered_points([term], states, delays), {}
    f = term.values(points)
    for name in term.parameters:
        slope = _slope(term.values, [name], points)
        usable = np.isfinite(f) & np.isfinite(slope) & (f != 0)
        power = slope[usable] / f[usable]
        if len(power) and np.ptp(power) <= _SMALL * np.abs(power).max():
            found[name] = float(np.round(power[0], 3))
    return found


def term_powers(term: Term, states: Sequence[str], delays: Sequence[str]) -> np.ndarray:
    """Return the power of the size of each state in the size of each of the term's
    parameters, [parameters, states]; NaN where it is not known."""
    units = {x: [x, *(f"{x}(t - {tau})" for tau in delays)] for x in states}
    f, by_parameter, by_unit = _derivatives(term.values, term.parameters, units)
    # A parameter that is a factor has no size: its coefficient compensates for it.
    solved = [_solved(f, slope) for slope in by_parameter.T]
    is_factor = np.array([np.isfinite(each).all() for each in solved], bool)
    powers = np.zeros((len(term.parameters), len(states)))
    matrix = np.concatenate([by_parameter[:, ~is_factor], -f], axis=1)
    for s, slope in enumerate(by_unit):
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
    found = [_derivatives(part, parameters, units) for part in parts.values()]
    matrix = np.concatenate([by_parameter for _, by_parameter, _ in found])
    powers = np.zeros((len(parameters), len(states) + 1))
    for s, state in enumerate(states):
        right = [
            (f[:, 0] if changing == state else 0.0) - by_unit[s]
            for changing, (f, _, by_unit) in zip(parts, found)
        ]
        powers[:, s] = _solved(matrix, np.concatenate(right))
    powers[:, -1] = _solved(matrix, np.concatenate([f[:, 0] for f, *_ in found]))
    return powers


def _derivatives(
    formula: Callable[[Variables], np.ndarray],
    parameters: Sequence[str],
    units: Mapping[str, Sequence[str]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values of a formula at random points, [points, 1], and its derivatives for
    the logarithms of its parameters, [points, parameters], and of the units of its
    other arguments, [units, points]."""
    random = np.random.default_rng(0)
    names = [*parameters, *(name for group in units.values() for name in group)]
    point = {name: np.exp(0.4 * random.normal(size=_POINTS)) for name in names}
    f, groups = formula(point), [*([name] for name in parameters), *units.values()]
    slopes = np.array([_slope(formula, group, point) for group in groups])
    return f[:, None], slopes[: len(parameters)].T, slopes[len(parameters) :]


def _slope(
    formula: Callable[[Variables], np.ndarray], group: Sequence[str], point: Variables
) -> np.ndarray:
    """Return the derivative of a formula for the logarithm of a group of its
    arguments."""

    def moved(step: float) -> np.ndarray:
        return formula({**point, **{n: point[n] * np.exp(step) for n in group}})

    with np.errstate(all="ignore"):
        return (moved(_STEP) - moved(-_STEP)) / (2 * _STEP)


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
        most, scans = _MOST_VALUES[min(len(term.parameters), len(_MOST_VALUES)) - 1], []
        for name in term.parameters:
            count = max(most // 2, 3) if name in exponents else most
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
    parts = {state: Term(part, (), ()).values for state, part in library.known.items()}
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


class Columns(NamedTuple):
    """The columns of a linear scan: the numbers of their rows of values, of their
    terms, and which two of them may stand in one equation."""

    row: np.ndarray  # [C]
    term: np.ndarray  # [C]
    compatible: np.ndarray  # [C, C]

    def take(self, kept: np.ndarray) -> "Columns":
        """Return some of the columns."""
        return Columns(self.row[kept], self.term[kept], self.compatible[kept][:, kept])


def columns_of(library: Library, inner: InnerParameters) -> Columns:
    """Return the columns of a scan. A term without parameters is one column; one with
    parameters has a column for each row of values. Two columns exclude each other if
    they are of the same term, or need different values of a shared parameter."""
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
    return Columns(row, term, compatible)


def values_of(
    library: Library, inner: InnerParameters, columns: Columns, chosen: Sequence[int]
) -> np.ndarray | None:
    """Return the inner parameters that the `chosen` columns of all equations need, and
    typical ones elsewhere; None if two columns need different values."""
    values, known = inner.typical.copy(), set()
    for column in chosen:
        for name in library.terms[columns.term[column]].parameters:
            j = inner.names.index(name)
            value = inner.rows[columns.row[column], j]
            if name in known and not np.isclose(values[j], value):
                return None
            known.add(name)
            values[j] = value
    return values
