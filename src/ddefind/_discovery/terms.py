"""Candidate terms: from what the user writes to formulas.

A term is the text of a formula of the states, of the delayed states and of parameters
of its own. `polynomial(2)` stands for all monomials up to degree 2, and `hill`,
`exponential` and `saturation` for families of functions of each state."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, final

from .._equation.equation import equation
from .._equation.expression import Delayed, Name, formula_text, walk
from .._equation.tokens import EquationError
from .._util.errors import did_you_mean, quoted, shown

_POLYNOMIAL = re.compile(r"polynomial\(\s*(\d+)\s*\)")
# The families, each a list of formulas of a state or delayed state {y}. The parameters
# of a family belong to a state {s}: they are the same wherever it stands.
_FAMILIES = {
    "hill": (
        "{y}^n_{s} / (K_{s}^n_{s} + {y}^n_{s})",
        "{y} / (1 + ({y} / K_{s})^n_{s})",
    ),
    "exponential": ("exp(-a_{s} * {y})", "{y} * exp(-a_{s} * {y})"),
    "saturation": ("{y} / (h_{s} + {y})",),
}
_HIGHEST_DEGREE = 5


@final
@dataclass(frozen=True)
class Term:
    """A candidate term. `parameters` are the names of its own parameters, and `delays`
    the numbers of the delays at which it reads states."""

    text: str
    parameters: tuple[str, ...]
    delays: tuple[int, ...]


def delay_names(count: int) -> tuple[str, ...]:
    """The names of so many delays: `tau`, or `tau_1` and so on."""
    return ("tau",) if count == 1 else tuple(f"tau_{j + 1}" for j in range(count))


def read_terms(given: Any, states: Sequence[str], delays: int) -> tuple[Term, ...]:
    """The candidates for an equation of these states with so many delays."""
    items = [given] if isinstance(given, str) else given
    if not isinstance(items, Sequence) or not items:
        raise TypeError(
            "`terms` must be a text such as 'polynomial(2)', or a list of texts, but "
            f"got {shown(given)}."
        )
    texts: dict[str, Term] = {}
    for item in items:
        if not isinstance(item, str):
            raise TypeError(f"`terms` must hold texts, but one item is {shown(item)}.")
        for text in _expanded(item.strip(), states, delays):
            term = _read_term(text, item, states, delay_names(delays))
            texts.setdefault(term.text, term)
    return tuple(texts.values())


def _expanded(item: str, states: Sequence[str], delays: int) -> Iterator[str]:
    """The formulas that one item of `terms` stands for."""
    names = delay_names(delays) if delays else ()
    arguments = [(state, state) for state in states]
    arguments += [(f"{state}(t - {tau})", state) for tau in names for state in states]
    if match := _POLYNOMIAL.fullmatch(item):
        degree = int(match.group(1))
        if not 0 <= degree <= _HIGHEST_DEGREE:
            raise ValueError(
                f"{quoted(item)}: the degree must be from 0 to {_HIGHEST_DEGREE}."
            )
        yield "1"
        for size in range(1, degree + 1):
            for chosen in combinations_with_replacement(range(len(arguments)), size):
                yield _monomial([arguments[j][0] for j in chosen])
    elif item in _FAMILIES:
        for argument, state in arguments:
            for formula in _FAMILIES[item]:
                yield formula.format(y=argument, s=state)
    elif delays != 1 and re.search(r"\btau\b", item):
        for tau in names:
            yield re.sub(r"\btau\b", tau, item)
    else:
        yield item


def _names_in(formula: Any) -> set[str]:
    """The names that a formula contains."""
    return {part.name for part in walk(formula) if isinstance(part, Name)}


def _monomial(factors: list[str]) -> str:
    """A product, with powers for repeated factors: `x^2 * x(t - tau)`."""
    powers = [(factor, factors.count(factor)) for factor in dict.fromkeys(factors)]
    return " * ".join(f if n == 1 else f"{f}^{n}" for f, n in powers)


def _read_term(
    text: str, item: str, states: Sequence[str], delays: Sequence[str]
) -> Term:
    """The term of a formula; an error names the `item` that the user wrote."""
    lines = [f"{state}' = 0" for state in states]
    try:
        model = equation("; ".join([*lines, f"candidate_' = {text}"]))
    except EquationError as error:
        raise ValueError(f"The term {quoted(item)} cannot be read. {error}") from None
    line = model.lines.of("derivative")[-1]
    read = {part for part in walk(line.formula) if isinstance(part, Delayed)}
    for part in read:
        is_known = isinstance(part.delay, Name) and part.delay.name in delays
        if not is_known or part.slope:
            listed = ", ".join(delays)
            raise ValueError(
                f"The term {quoted(item)} reads {formula_text(part)}, but candidates "
                f"are delayed by {listed} alone, whose lengths are searched. Write "
                f"x(t - {delays[0]})."
            )
    if model.network_names or model.depends_on_time:
        raise ValueError(
            f"The term {quoted(item)}: candidates are formulas of states, delayed "
            "states and parameters."
        )
    used = tuple(
        j
        for j, tau in enumerate(delays)
        if any(formula_text(part.delay) == tau for part in read)
    )
    own = model.lines.parameters - set(delays)
    if own and not read and not _names_in(line.formula) & set(states):
        known = [*states, "polynomial(2)", *_FAMILIES]
        raise ValueError(
            f"The term {quoted(item)} has no state in it.{did_you_mean(item, known)}"
        )
    names = tuple(name for name in model.names if name in own)
    return Term(formula_text(line.formula), names, used)
