"""The text that a problem was made from, found again."""

from typing import Any

import jax
import jax.numpy as jnp

from .._problem.history import KINDS
from .._problem.problem import Problem, with_noise
from .._util.arrays import is_parameter
from .equation import Equation, equation
from .given_tables import given_inputs
from .network_names import given_networks


def equation_of(problem: Problem) -> Equation | None:
    """Return the equation whose method `problem` made this problem, with a history of
    the problem's kind, or with the problem's own history.

    Return None if there is none, or if a part of the problem was replaced since.

    >>> model = equation("x' = -k * x(t - tau)")
    >>> print(equation_of(model.problem(k=1.0, b=2.0, tau=0.5)))
    x' = -k * x(t - tau)
    """
    problem = with_noise(problem, None)
    texts: Any = getattr(problem.rhs, "_texts", None)
    if texts is None:
        return None
    text, observe, names = texts
    plain = equation(text, observe=observe, inputs=names)
    plain = plain.with_inputs(given_inputs(problem, names)).with_doses(problem.doses)
    plain = plain.with_networks(given_networks(problem, plain.network_names))
    models = [plain]
    if plain.history is not None:
        kinds = [kind for kind, cls in KINDS.items() if type(problem.history) is cls]
        models = [plain.with_history(each) for each in (*kinds, problem.history)]
    return next((m for m in models if _is_alike(m.blank, problem)), None)


def _is_alike(one: Problem, other: Problem) -> bool:
    """Whether two problems differ in nothing but numbers."""
    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other))
    return all(jnp.shape(a) == jnp.shape(b) for a, b in pairs if is_parameter(a))
