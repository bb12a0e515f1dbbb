"""Candidate terms, and the library of all of them, of which a structure chooses.

A term is a formula of the states, the delayed states and parameters. `polynomial(2)`
stands for all monomials up to degree 2, and `hill`, `exponential` and `saturation` for
families of functions of each state.

A *structure* is a set of pairs (state, term): the terms in the equation of each state.
`Candidates` is a right-hand side with a fixed number of slots. The term in a slot is
data of the model, not part of its program, so that one compiled program serves all
structures."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, permutations
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
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

# Pairs of the number of a state and the number of a term, in order.
Structure = tuple[tuple[int, int], ...]
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

        def is_defined(call: Call) -> bool:
            power = call.arguments[-1].value if call.function == "^" else None
            is_whole = power is not None and power >= 0 and power % 1 == 0
            return is_whole or call.function in _ALWAYS_DEFINED

        parts = walk(self.formula)
        return all(is_defined(part) for part in parts if isinstance(part, Call))

    def values(self, variables: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the values for arrays of its arguments, by name: of states, of delayed
        states as `x(t - tau)`, and of parameters."""
        with np.errstate(all="ignore"):
            found = evaluate_formula(self.formula, variables)
        shape = np.broadcast_shapes(*(each.shape for each in variables.values()))
        return np.broadcast_to(np.asarray(found, float), shape)


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


# The library.


@final
class Candidates(dd.models.AbstractModel):
    r"""The sum of chosen terms: $x_i' = k_i + \sum_s c_s\, L_{j(s)}\,[i(s) = i]$, with
    the known part k and the terms L of the `library`; `chosen` [slots, terms] and
    `target` [slots, d] are 1 where slot s has the term j and the state i.

    A term that is not chosen may have no value where the trajectory is, as log(x) at
    x = -1. Neither its value nor its derivatives must then disturb the others."""

    library: Any
    coefficients: jax.Array
    chosen: jax.Array
    target: jax.Array
    fragile: tuple[int, ...] = eqx.field(static=True)

    def __call__(
        self, x: jax.Array, y: jax.Array, tau: jax.Array, t: jax.Array
    ) -> jax.Array:
        d, used = x.shape[0], jnp.any(self.chosen > 0, axis=0)
        values = all_values(self.library, self.fragile, used, x, y, tau, t)
        chosen = jnp.where(self.chosen > 0, values[None, d:], 0.0)
        terms = jnp.sum(chosen, axis=1) * self.coefficients
        return values[:d] + jnp.sum(self.target * terms[:, None], axis=0)


def all_values(
    library: Any, fragile: tuple[int, ...], used: jax.Array, x, y, tau, t
) -> jax.Array:
    """Return the known parts of all equations, followed by the values of all terms.
    `fragile` terms that are not `used` have their values where all states are one."""

    def padded(state: jax.Array) -> jax.Array:
        copies = [jnp.where(used[j], state, 1.0) for j in fragile]
        return jnp.concatenate([state, jnp.zeros(len(used)), *copies])

    values = library(padded(x), jax.tree.map(padded, y), tau, t)
    return values[: x.shape[0] + len(used)]


@final
@dataclass(frozen=True)
class Library:
    """The candidate `terms` for equations of `states` with this number of `delays`, and
    the `known` parts of the equations, by state."""

    states: tuple[str, ...]
    terms: tuple[Term, ...]
    delays: int
    known: Mapping[str, Expression]
    model: dd.Equation

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The parameters inside the terms and the known parts."""
        names = [name for term in self.terms for name in term.parameters]
        return tuple(dict.fromkeys([*names, *self.known_parameters]))

    @cached_property
    def known_parameters(self) -> tuple[str, ...]:
        """The parameters of the known parts, which every structure has."""
        names = [n for part in self.known.values() for n in names_in(part)]
        others = [n for n in names if n not in self.states]
        return tuple(dict.fromkeys(n for n in others if Name(n).value is None))

    @cached_property
    def fragile(self) -> tuple[int, ...]:
        """The terms that may have no value for some states."""
        return tuple(j for j, t in enumerate(self.terms) if not t.is_always_defined)

    @property
    def delay_paths(self) -> tuple[str, ...]:
        """The names of the delays in a problem."""
        names = delay_names(self.delays)
        return names if self.delays < 2 else tuple(f"tau.{name}" for name in names)

    @property
    def module(self) -> Any:
        """The right-hand side that computes all terms; its parameters are NaN."""
        return self.model.blank.rhs

    def delays_in(self, structure: Structure) -> tuple[int, ...]:
        """Return the numbers of the delays that a structure reads."""
        used = {j for _, term in structure for j in self.terms[term].delays}
        return tuple(sorted(used))

    def parameters_in(self, structure: Structure) -> tuple[str, ...]:
        """Return the parameters inside the terms of a structure, those of known parts
        among them."""
        used = {name for _, term in structure for name in self.terms[term].parameters}
        used |= {*self.known_parameters}
        return tuple(n for n in self.parameters if n in used)

    def is_valid(self, structure: Structure) -> bool:
        """Whether the second delay is used only if the first one is."""
        used = self.delays_in(structure)
        return used == tuple(range(len(used)))

    def term_texts(self, structure: Structure) -> dict[str, tuple[str, ...]]:
        """Return the texts of the terms in the equation of each state."""
        return {
            state: tuple(self.terms[term].text for i, term in structure if i == number)
            for number, state in enumerate(self.states)
        }

    @cached_property
    def prefix(self) -> str:
        """The c of c_1, c_2, ..., the names of coefficients: cc if c_1 is another name,
        and so on."""
        others, prefix = [*self.states, *self.parameters], "c"
        while any(re.fullmatch(rf"{prefix}_\d+", name) for name in others):
            prefix += "c"
        return prefix

    def text(self, structure: Structure) -> str:
        """Return the equations of a structure, with the coefficients c_1, c_2, ..."""
        parts = {
            state: [formula_text(self.known[state])] if state in self.known else []
            for state in self.states
        }
        for number, (i, term) in enumerate(structure, 1):
            name, factor = f"{self.prefix}_{number}", self.terms[term].factor
            text = name if factor == "1" else f"{name} * {factor}"
            parts[self.states[i]].append(text)
        return "\n".join(f"{s}' = {' + '.join(p) or '0'}" for s, p in parts.items())


def make_library(
    states: Sequence[str],
    terms: Sequence[Term],
    delays: int,
    known: Mapping[str, Expression],
) -> Library:
    """Return the library of these terms."""
    parts = {state: formula_text(part) for state, part in known.items()}
    lines = [f"{state}' = {parts.get(state, '0')}" for state in states]
    copies = []
    for j, term in enumerate(terms):
        text = term.text
        if not term.is_always_defined:
            # A term that may have no value reads its own copies of the states.
            names = r"\b(" + "|".join(states) + r")\b"
            text = re.sub(names, rf"\1_of_{j}_", text)
            copies += [f"{state}_of_{j}_' = 0" for state in states]
        lines.append(f"candidate_{j}_' = {text}")
    lines += copies
    if delays > 1:
        # Every delay must be read, in its order, so that they are told apart.
        first = [f"0 * {states[0]}(t - {tau})" for tau in delay_names(delays)]
        lines[0] += " + " + " + ".join(first)
    return Library(
        tuple(states), tuple(terms), delays, dict(known), dd.equation("\n".join(lines))
    )


def read_known(given: Any, states: Sequence[str]) -> dict[str, Expression]:
    """Return the known parts of equations by state, from the argument `known`."""
    if given is None:
        return {}
    if not isinstance(given, str):
        raise TypeError(
            f"{wording.KNOWN_PARTS} must be a text, as \"{states[0]}' = -0.5 * "
            f'{states[0]}", but got {shown(given)}.'
        )
    parts: dict[str, str] = {}
    for line in filter(None, map(str.strip, given.replace(";", "\n").splitlines())):
        left, equals, right = line.partition("=")
        state = left.strip().removesuffix("'").rstrip()
        if not equals or not left.strip().endswith("'") or state not in states:
            raise ValueError(
                f"{wording.KNOWN_PARTS} must give known parts of equations, as "
                f'"{states[0]}\' = -0.5 * {states[0]}", with the states '
                f"{', '.join(states)}, but got {quoted(line)}."
            )
        if state in parts:
            raise ValueError(
                f"{wording.KNOWN_PARTS} has two parts for {state}'. Write their sum."
            )
        parts[state] = right.strip()
    try:
        model = dd.equation("; ".join(f"{s}' = {parts.get(s, '0')}" for s in states))
    except dd.EquationError as error:
        raise ValueError(f"{wording.KNOWN_PARTS} cannot be read. {error}") from None
    if model.network_names:
        raise ValueError(
            f"{wording.KNOWN_PARTS} cannot contain a network, as "
            f"{model.network_names[0]}: unknown parts are sought among the terms."
        )
    formulas = {line.name: line.formula for line in model.lines.of("derivative")}
    inside = [part for formula in formulas.values() for part in walk(formula)]
    if model.depends_on_time or any(isinstance(part, Delayed) for part in inside):
        raise ValueError(
            f"{wording.KNOWN_PARTS} must consist of states and parameters. Offer a "
            "delayed state among the terms; parts that depend on the time cannot be "
            "given."
        )
    return {state: formulas[state] for state in parts}


def evaluate_library(library: Library, x, y, values) -> np.ndarray:
    """Return the values [C, G, d + terms] of the known parts and all terms along curves
    `x` [G, d] and `y` [k, G, d], for rows of `values` [C, parameters]."""
    names, used = library.parameters, jnp.ones(len(library.terms), bool)
    given = library.module, names, library.fragile, used, x, y, values
    return np.asarray(_evaluate(*given))


@eqx.filter_jit
def _evaluate(
    module: Any, names: tuple, fragile: tuple, used: jax.Array, x, y, values
) -> jax.Array:
    k = y.shape[0]

    def at(row, x, y):
        given = eqx.tree_at(lambda m: [getattr(m, n) for n in names], module, list(row))
        delayed = y[0] if k == 1 else dict(zip(delay_names(k), y))
        tau = 1.0 if k == 1 else dict.fromkeys(delay_names(k), 1.0)
        return all_values(given, fragile, used, x, delayed, tau, 0.0)

    along = jax.vmap(at, in_axes=(None, 0, 1))
    return jax.vmap(along, in_axes=(0, None, None))(values, x, y)
