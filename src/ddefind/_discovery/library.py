"""The library of candidates: all terms in one program, of which a structure chooses.

A *structure* is a set of pairs (state, term): which terms stand in the equation of
which state. `Candidates` is a right-hand side with a fixed number of slots. Which term
stands in a slot is an integer of the model, not part of its program, so that one
compiled program serves all structures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._equation.equation import Equation, equation
from .._equation.tokens import EquationError
from .._util import wording
from .._util.errors import quoted
from ..models import AbstractModel
from .terms import Term, delay_names

# Pairs of the number of a state and the number of a term, in order.
Structure = tuple[tuple[int, int], ...]


@final
class Candidates(AbstractModel):
    r"""The sum of chosen terms: $x_i' = k_i + \sum_s c_s\, L_{j(s)}\,[i(s) = i]$, with
    the known part k and the terms L of the `library`; `chosen` [slots, terms] and
    `target` [slots, d] are 1 where slot s has the term j and the state i."""

    library: Any
    coefficients: jax.Array
    chosen: jax.Array
    target: jax.Array

    def __call__(
        self, x: jax.Array, y: jax.Array, tau: jax.Array, t: jax.Array
    ) -> jax.Array:
        d = x.shape[0]
        values = all_values(self.library, self.chosen.shape[1], x, y, tau, t)
        terms = jnp.sum(self.chosen * values[None, d:], axis=1) * self.coefficients
        return values[:d] + jnp.sum(self.target * terms[:, None], axis=0)


def all_values(library: Any, count: int, x, y, tau, t) -> jax.Array:
    """The known parts of all equations, followed by the values of all terms."""

    def padded(state: jax.Array) -> jax.Array:
        return jnp.concatenate([state, jnp.zeros(count)])

    return library(padded(x), jax.tree.map(padded, y), tau, t)


@final
@dataclass(frozen=True)
class Library:
    """The candidate `terms` for equations of `states` with so many `delays`, and the
    parts of the equations that are `known`, by state."""

    states: tuple[str, ...]
    terms: tuple[Term, ...]
    delays: int
    known: Mapping[str, str]
    model: Equation

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The parameters inside the terms and the known parts."""
        delays = delay_names(self.delays)
        own = self.model.lines.parameters
        return tuple(n for n in self.model.names if n in own and n not in delays)

    @cached_property
    def known_parameters(self) -> frozenset[str]:
        """Those of the known parts, which every structure has."""
        in_terms = {name for term in self.terms for name in term.parameters}
        if not self.known:
            return frozenset()
        text = "; ".join(f"{s}' = {self.known.get(s, '0')}" for s in self.states)
        own = equation(text).lines.parameters - set(delay_names(self.delays))
        return frozenset(own) | (frozenset(self.parameters) - in_terms)

    @property
    def module(self) -> Any:
        """The right-hand side that computes all terms; its parameters are NaN."""
        return self.model.blank.rhs

    @property
    def tau(self) -> Any:
        """The delays in the structure that a problem has for them."""
        if self.delays < 2:
            return 1.0
        return dict.fromkeys(delay_names(self.delays), 1.0)

    def delays_in(self, structure: Structure) -> tuple[int, ...]:
        """The numbers of the delays that a structure reads."""
        used = {j for _, term in structure for j in self.terms[term].delays}
        return tuple(sorted(used))

    def parameters_in(self, structure: Structure) -> tuple[str, ...]:
        """The parameters inside the terms of a structure, those of known parts among
        them."""
        own = {name for _, term in structure for name in self.terms[term].parameters}
        return tuple(n for n in self.parameters if n in own | self.known_parameters)

    def is_valid(self, structure: Structure) -> bool:
        """Whether the second delay is used only if the first one is."""
        used = self.delays_in(structure)
        return used == tuple(range(len(used)))

    def term_texts(self, structure: Structure) -> dict[str, tuple[str, ...]]:
        """The texts of the terms in the equation of each state."""
        return {
            state: tuple(self.terms[term].text for i, term in structure if i == number)
            for number, state in enumerate(self.states)
        }

    def text(self, structure: Structure) -> str:
        """The equations of a structure, with the coefficients c_1, c_2, ..."""
        lines, number = [], 0
        for i, state in enumerate(self.states):
            parts = [f"({self.known[state]})"] if state in self.known else []
            for own, term in structure:
                if own == i:
                    number += 1
                    text = self.terms[term].text
                    factor = f"c_{number}"
                    parts.append(factor if text == "1" else f"{factor} * {text}")
            lines.append(f"{state}' = {' + '.join(parts) or '0'}")
        return "\n".join(lines)


def make_library(
    states: Sequence[str],
    terms: Sequence[Term],
    delays: int,
    known: Mapping[str, str],
) -> Library:
    """The library of these terms."""
    lines = [f"{state}' = {known.get(state, '0')}" for state in states]
    lines += [f"candidate_{j}_' = {term.text}" for j, term in enumerate(terms)]
    if delays > 1:
        # Every delay must be read, in its order, so that they are told apart.
        first = [f"0 * {states[0]}(t - {tau})" for tau in delay_names(delays)]
        lines[0] += " + " + " + ".join(first)
    return Library(
        tuple(states), tuple(terms), delays, dict(known), equation("\n".join(lines))
    )


def read_known(given: str | None, states: Sequence[str]) -> dict[str, str]:
    """The known parts of equations by state, from `known` as the user gave it."""
    if given is None:
        return {}
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
        parts[state] = right.strip()
    try:
        model = equation("; ".join(f"{s}' = {parts.get(s, '0')}" for s in states))
    except EquationError as error:
        raise ValueError(f"{wording.KNOWN_PARTS} cannot be read. {error}") from None
    if model.network_names:
        raise ValueError(
            f"{wording.KNOWN_PARTS} cannot contain a network, as "
            f"{model.network_names[0]}: what is not known is sought among the terms."
        )
    return parts


def evaluate_library(library: Library, x, y, values) -> np.ndarray:
    """The values of all terms along curves: `x` [G, d], `y` [k, G, d] and rows of
    `values` [C, parameters]. Returns [C, G, d + terms]."""
    return np.asarray(_evaluate(library.module, len(library.terms), x, y, values))


@eqx.filter_jit
def _evaluate(module: Any, count: int, x, y, values) -> jax.Array:
    fields = [
        leaf for leaf in jax.tree.leaves(eqx.filter(module, eqx.is_inexact_array))
    ]
    treedef = jax.tree.structure(eqx.filter(module, eqx.is_inexact_array))
    rest = eqx.filter(module, eqx.is_inexact_array, inverse=True)
    k = y.shape[0]
    assert len(fields) == values.shape[1]

    def at(row, x, y):
        own = eqx.combine(jax.tree.unflatten(treedef, list(row)), rest)
        delayed = y[0] if k == 1 else dict(zip(delay_names(k), y))
        tau = 1.0 if k == 1 else dict.fromkeys(delay_names(k), 1.0)
        return all_values(own, count, x, delayed, tau, 0.0)

    along = jax.vmap(at, in_axes=(None, 0, 1))
    return jax.vmap(along, in_axes=(0, None, None))(values, x, y)
