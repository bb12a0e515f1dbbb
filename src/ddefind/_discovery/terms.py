"""Candidate terms: from the user's texts to formulas.

A term is a formula of the states, the delayed states and parameters. `polynomial(2)`
stands for all monomials up to degree 2, and `hill`, `exponential` and `saturation` for
families of functions of each state."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, permutations
from typing import Any, final

import numpy as np

import ddefind as dd

from .._equation.expression import (
    PRECEDENCE,
    Call,
    Delayed,
    Expression,
    Name,
    evaluate_formula,
    formula_text,
    names_in,
    walk,
)
from .._util import wording
from .._util.errors import did_you_mean, quoted, shown

_POLYNOMIAL = re.compile(r"polynomial\(\s*(\d+)\s*\)")
_LIKE_A_POLYNOMIAL = re.compile(r"poly\w*\s*(\(.*\))?")
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
# The name under which the text of a term is read.
_CANDIDATE = "candidate_"
# Names of delays.
_DELAY = re.compile(r"tau(_\d+)?")
# Functions that have a value wherever their arguments have one.
_ALWAYS_DEFINED = ("+", "-", "*", "neg", "tanh", "sin", "cos", "abs", "min", "max")
# Terms are compared at this many points, with states between these sizes. They are the
# same if their values are, up to this share, at this many points or more.
_POINTS, _SMALLEST, _LARGEST = 240, 1e-6, 1e6
_ROUNDING, _LEAST_IN_COMMON = 1e-7, 12


@final
@dataclass(frozen=True)
class Term:
    """A candidate term. `parameters` are the names of its own parameters, and `delays`
    the numbers of the delays at which it reads states."""

    formula: Expression
    parameters: tuple[str, ...]
    delays: tuple[int, ...]

    @cached_property
    def text(self) -> str:
        return formula_text(self.formula)

    @property
    def factor(self) -> str:
        """The text where it is multiplied."""
        return formula_text(self.formula, PRECEDENCE["*"])

    @property
    def is_always_defined(self) -> bool:
        """Whether it has a value wherever its arguments have one, unless these are too
        large for numbers."""
        calls = [part for part in walk(self.formula) if isinstance(part, Call)]
        return all(
            call.function in _ALWAYS_DEFINED
            or (call.function == "^" and _is_whole(call.arguments[1].value))
            for call in calls
        )

    def values(self, variables: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the values for arrays of its arguments, by name: of states, of delayed
        states as `x(t - tau)`, and of parameters."""
        with np.errstate(all="ignore"):
            found = evaluate_formula(self.formula, variables)
        shape = np.broadcast_shapes(*(each.shape for each in variables.values()))
        return np.broadcast_to(np.asarray(found, float), shape)


def _is_whole(value: Any) -> bool:
    return value is not None and value >= 0 and value % 1 == 0


def delay_names(count: int) -> tuple[str, ...]:
    """Return the names of this number of delays: `tau`, or `tau_1` and so on."""
    return ("tau",) if count == 1 else tuple(f"tau_{j + 1}" for j in range(count))


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a text in which delays have other names."""
    return re.sub(r"\btau(_\d+)?\b", lambda match: names.get(match[0], match[0]), text)


def read_terms(given: Any, states: Sequence[str], delays: int) -> tuple[Term, ...]:
    """Return the candidates for an equation of `states` with this number of delays."""
    items = [given] if isinstance(given, str) else given
    if not isinstance(items, Sequence) or not items:
        raise TypeError(
            "`terms` must be a text such as 'polynomial(2)', or a list of texts, but "
            f"got {shown(given)}."
        )
    terms: list[Term] = []
    for item in items:
        if not isinstance(item, str):
            raise TypeError(f"`terms` must hold texts, but one item is {shown(item)}.")
        for text in _expanded(item.strip(), states, delays):
            terms.append(_read_term(text, item, states, delay_names(delays)))
    return _distinct(terms, states, delay_names(delays))


def _expanded(item: str, states: Sequence[str], delays: int) -> Iterator[str]:
    """Yield the formulas that one item of `terms` stands for."""
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
                factors = [arguments[j][0] for j in chosen]
                powers = {factor: factors.count(factor) for factor in factors}
                yield " * ".join(f if n == 1 else f"{f}^{n}" for f, n in powers.items())
    elif _LIKE_A_POLYNOMIAL.fullmatch(item) and item not in states:
        raise ValueError(
            f"{quoted(item)}: write 'polynomial(2)' for all products of up to two "
            f"states and delayed states, with a degree from 0 to {_HIGHEST_DEGREE}."
        )
    elif item in _FAMILIES:
        for argument, state in arguments:
            for formula in _FAMILIES[item]:
                yield formula.format(y=argument, s=state)
    elif delays != 1 and re.search(r"\btau\b", item):
        for tau in names:
            yield renamed(item, {"tau": tau})
    else:
        yield item


def _read_term(
    text: str, item: str, states: Sequence[str], delays: Sequence[str]
) -> Term:
    """Return the term of a formula; an error names the `item` that the user wrote."""
    lines = [f"{state}' = 0" for state in states]
    try:
        model = dd.equation("\n".join([*lines, f"{_CANDIDATE}' = {text}"]))
    except dd.EquationError as error:
        message = _about_the_term_alone(str(error))
        several = f" {wording.SEVERAL_TERMS}" if "," in item else ""
        raise ValueError(
            f"The term {quoted(item)} cannot be read.{several} {message}"
        ) from None
    line = model.lines.of("derivative")[-1]
    read = {part for part in walk(line.formula) if isinstance(part, Delayed)}
    for part in read:
        is_known = isinstance(part.delay, Name) and part.delay.name in delays
        if not is_known or part.slope:
            raise ValueError(
                f"The term {quoted(item)} reads {formula_text(part)}, but candidates "
                "are delayed by tau alone, which stands for each delay that is "
                f"searched. Write {part.name}(t - tau)."
            )
    if model.network_names or model.depends_on_time:
        raise ValueError(
            f"The term {quoted(item)}: candidates are formulas of states, delayed "
            "states and parameters."
        )
    names_read = {formula_text(part.delay) for part in read}
    used = tuple(j for j, tau in enumerate(delays) if tau in names_read)
    parameters, names = model.lines.parameters - names_read, names_in(line.formula)
    if misused := sorted(filter(_DELAY.fullmatch, parameters | {*names})):
        raise ValueError(
            f"The term {quoted(item)} has {misused[0]} in it, which is the name of a "
            "delay: it can only stand in a delayed state, as x(t - tau)."
        )
    if parameters and not read and not {*names} & {*states}:
        known = [*states, "polynomial(2)", *_FAMILIES]
        raise ValueError(
            f"The term {quoted(item)} has no state in it.{did_you_mean(item, known)}"
        )
    ordered = tuple(dict.fromkeys(name for name in names if name in parameters))
    return Term(line.formula, ordered, used)


def _about_the_term_alone(message: str) -> str:
    """Return an error message without the name under which the term was read."""
    head = re.search(rf"line \d+: {_CANDIDATE}' = ", message)
    if head is not None:
        text, _, caret = message[head.end() :].partition("\n")
        message = (
            f"{message[: head.start()]}{text}\n{caret[head.end() - head.start() :]}"
        )
    # Candidates have no inputs.
    message = re.sub(r" If it is an input, list it: [^\n]*", "", message)
    return message.replace(f", {_CANDIDATE}", "")


def _distinct(
    terms: Sequence[Term], states: Sequence[str], delays: Sequence[str]
) -> tuple[Term, ...]:
    """Return the terms that are no multiples of earlier ones, as x * x is of x^2."""
    points = scattered_points(terms, states, delays)
    kept: dict[str, Term] = {}
    # The logarithms of the values of kept terms up to their sign and size, by the signs
    # at all points: these are the same for all multiples of a term.
    alike: dict[bytes, list[np.ndarray]] = {}
    for term in terms:
        key = _key(term.formula, {})
        if key in kept:
            continue
        values = term.values(points)
        used = np.isfinite(values) & (values != 0)
        # Terms that have values at too few of the points cannot be compared.
        if used.sum() >= _LEAST_IN_COMMON:
            first = values[used][0]
            signs = np.where(np.isfinite(values), np.sign(values * np.sign(first)), 2)
            logs = np.log(np.abs(values[used])) - np.log(np.abs(first))
            others = alike.setdefault(signs.astype(np.int8).tobytes(), [])
            if any(np.abs(logs - other).max() <= _ROUNDING for other in others):
                continue
            others.append(logs)
        kept[key] = term
    return tuple(kept.values())


def scattered_points(
    terms: Sequence[Term], states: Sequence[str], delays: Sequence[str]
) -> dict[str, np.ndarray]:
    """Return values for all arguments of the terms, by name: of states of both signs
    and of very different sizes, and of positive parameters.

    For each point there is one with any other order of the delays, so that terms that
    differ in the numbers of their delays are treated alike."""
    random = np.random.default_rng(0)
    orders = list(permutations(range(len(delays))))
    count = _POINTS // len(orders)
    # At one point all states are about as large.
    sizes = np.exp(random.uniform(np.log(_SMALLEST), np.log(_LARGEST), count))

    def value() -> np.ndarray:
        return sizes * np.exp(random.normal(size=count)) * random.choice([-1, 1], count)

    points = {x: np.tile(value(), len(orders)) for x in states}
    for x in states:
        values = [value() for _ in delays]
        for j, tau in enumerate(delays):
            ordered = [values[order[j]] for order in orders]
            points[f"{x}(t - {tau})"] = np.concatenate(ordered)
    for name in dict.fromkeys(name for term in terms for name in term.parameters):
        points[name] = np.tile(np.exp(random.normal(size=count)), len(orders))
    return points


def renumbered(terms: Sequence[Term], rank: Sequence[int]) -> list[int]:
    """Return which term each term becomes when the delay j is called `rank[j]`."""
    delays = delay_names(len(rank))
    names = {delays[j]: delays[new] for j, new in enumerate(rank)}
    places = {_key(term.formula, {}): j for j, term in enumerate(terms)}
    return [places[_key(term.formula, names)] for term in terms]


def _key(part: Expression, names: Mapping[str, str]) -> str:
    """Return a text of a formula with other names of delays and sorted factors."""
    if not isinstance(part, Call):
        return renamed(formula_text(part), names)
    if part.function == "*":
        keys = sorted(_key(factor, names) for factor in _factors(part))
    else:
        keys = [_key(argument, names) for argument in part.arguments]
    return f"{part.function}({', '.join(keys)})"


def _factors(part: Expression) -> Iterator[Expression]:
    """Yield the factors a, b, c of a product a * b * c."""
    if isinstance(part, Call) and part.function == "*":
        for argument in part.arguments:
            yield from _factors(argument)
    else:
        yield part
