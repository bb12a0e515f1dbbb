"""The parameters inside of terms, such as the K and n of a Hill function: the values
that a scan tries, and their bounds."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from .._equation.expression import Call, Name, walk
from .._problem.parameters import Fixed, Parameter
from .library import Library

# Exponents that are tried. All other parameters are thought to scale a state, or to be
# the inverse of such a scale: factors of it that are tried.
_LOWEST_EXPONENT, _HIGHEST_EXPONENT = 0.7, 16.0
_WIDEST_SCALE = 20.0
# Fits may leave the values that were tried by this factor.
_BEYOND = 4.0
_MOST_VALUES = (24, 12, 6, 4)


class InnerParameters(NamedTuple):
    """The range of each inner parameter, and the rows of values of a scan.

    `names`, `lower` and `upper` have one element for each parameter. `rows` [C,
    parameters] are what the scan tries: for each row `term` is the number of the term
    that it is for, or -1 for the first one, which serves the terms without
    parameters."""

    names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    rows: np.ndarray
    term: np.ndarray

    @property
    def typical(self) -> np.ndarray:
        """The middle of each range."""
        return self.rows[0]


def inner_parameters(
    library: Library, x: np.ndarray, settings: Mapping[str, Any]
) -> InnerParameters:
    """What a scan tries, given the measured values and the user's `settings`."""
    names = library.parameters
    scale = float(np.nanmedian(np.abs(x))) or 1.0
    ranges = {name: _range(library, name, scale, settings.get(name)) for name in names}
    typical = np.array([np.exp(np.mean(np.log(ranges[name]))) for name in names])
    exponents = _exponents(library)
    rows, owners = [typical], [-1]
    for number, term in enumerate(library.terms):
        rest = [n for n in term.parameters if n in names]
        if not rest:
            continue
        count = _MOST_VALUES[min(len(rest), len(_MOST_VALUES)) - 1]
        scans = [
            np.geomspace(
                *ranges[name], max(count // 2, 3) if name in exponents else count
            )
            for name in rest
        ]
        for values in product(*scans):
            row = typical.copy()
            row[[names.index(name) for name in rest]] = values
            rows.append(row)
            owners.append(number)
    bounds = np.array([ranges[name] for name in names]).reshape(-1, 2)
    lower, upper = bounds[:, 0] / _BEYOND, bounds[:, 1] * _BEYOND
    for j, name in enumerate(names):
        lower[j], upper[j] = _given(settings.get(name), lower[j], upper[j])
    return InnerParameters(names, lower, upper, np.array(rows), np.array(owners))


def _range(
    library: Library, name: str, scale: float, setting: Any
) -> tuple[float, float]:
    if name in _exponents(library):
        low, high = _LOWEST_EXPONENT, _HIGHEST_EXPONENT
    else:
        low = min(scale, 1 / scale) / _WIDEST_SCALE
        high = max(scale, 1 / scale) * _WIDEST_SCALE
    low, high = _given(setting, low, high)
    # Scans are logarithmic.
    high = max(high, 1e-12)
    return max(low, 1e-4 * high), high


def _given(setting: Any, low: float, high: float) -> tuple[float, float]:
    """The range within the user's bounds."""
    if isinstance(setting, Fixed):
        return float(setting.value), float(setting.value)
    if isinstance(setting, Parameter):
        low = low if setting.lower is None else max(float(setting.lower), 0.0)
        high = high if setting.upper is None else float(setting.upper)
    elif isinstance(setting, int | float):
        low, high = float(setting) / 3, float(setting) * 3
    return low, high


def _exponents(library: Library) -> set[str]:
    """The parameters that stand as exponents."""
    formulas = [line.formula for line in library.model.lines.model]
    return {
        part.arguments[1].name
        for formula in formulas
        for part in walk(formula)
        if isinstance(part, Call) and part.function == "^" and len(part.arguments) == 2
        if isinstance(part.arguments[1], Name)
    }


def columns_of(
    library: Library, inner: InnerParameters
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The columns of a linear scan: the numbers of their rows of values, of their
    terms, and which two of them may stand in one equation.

    A term without parameters is one column; one with parameters has a column for each
    row of values. Two columns exclude each other if they are of the same term, or need
    different values of a shared parameter."""
    rows, terms = [], []
    for number in range(len(library.terms)):
        own = np.flatnonzero(inner.term == number)
        own = own if len(own) else np.zeros(1, int)
        rows += own.tolist()
        terms += [number] * len(own)
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
    """The inner parameters of the chosen (row, term) pairs, typical ones elsewhere."""
    values = inner.typical.copy()
    for row, term in chosen:
        for name in library.terms[term].parameters:
            j = inner.names.index(name)
            values[j] = inner.rows[row, j]
    return values
