"""The library of candidates: all terms in one program, of which a structure chooses.

A *structure* is a set of pairs (state, term): the terms in the equation of each state.
`Candidates` is a right-hand side with a fixed number of slots. The term in a slot is
data of the model, not part of its program, so that one compiled program serves all
structures."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ddefind as dd

from .._equation.expression import (
    CONSTANTS,
    Delayed,
    Expression,
    formula_text,
    names_in,
    walk,
)
from .._util import wording
from .._util.errors import quoted, shown
from ..models import AbstractModel
from .terms import Term, delay_names

# Pairs of the number of a state and the number of a term, in order.
Structure = tuple[tuple[int, int], ...]


@final
class Candidates(AbstractModel):
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
        others = (*self.states, *CONSTANTS)
        return tuple(dict.fromkeys(n for n in names if n not in others))

    @cached_property
    def fragile(self) -> tuple[int, ...]:
        """The terms that may have no value for some states."""
        return tuple(j for j, t in enumerate(self.terms) if not t.is_always_defined)

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
    def _prefix(self) -> str:
        """The prefix of the names of coefficients, which no other name has."""
        others, prefix = [*self.states, *self.parameters], "c"
        while any(re.fullmatch(rf"{prefix}_\d+", name) for name in others):
            prefix += "c"
        return prefix

    def coefficient(self, number: int) -> str:
        """Return the name of a coefficient."""
        return f"{self._prefix}_{number}"

    def is_coefficient(self, name: str) -> bool:
        """Whether this can be the name of a coefficient."""
        return re.fullmatch(rf"{self._prefix}_\d+", name) is not None

    def text(self, structure: Structure) -> str:
        """Return the equations of a structure, with the coefficients c_1, c_2, ..."""
        lines, number = [], 0
        for i, state in enumerate(self.states):
            parts = [formula_text(self.known[state])] if state in self.known else []
            for target, term in structure:
                if target == i:
                    number += 1
                    name, factor = self.coefficient(number), self.terms[term].factor
                    parts.append(name if factor == "1" else f"{name} * {factor}")
            lines.append(f"{state}' = {' + '.join(parts) or '0'}")
        return "\n".join(lines)


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
    module, names, fragile = library.module, library.parameters, library.fragile
    used = jnp.ones(len(library.terms), bool)
    return np.asarray(_evaluate(module, names, fragile, used, x, y, values))


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
