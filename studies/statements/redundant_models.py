"""Random models in which one parameter was replaced by an expression of several, of
which only the value matters: `redundant_case(number)`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import final

import numpy as np

import ddefind as dd

from ..search_quality.integrate import history_names, read_model
from ..search_quality.random_models import Case, case

_SEED = 16300
# The share of cases with a replaced parameter, and of those with bounds on both sides.
_REPLACED, _BOUNDED = 0.5, 0.4
# Bounds are the true value divided and multiplied by this.
_BOUND_FACTOR = 5.0

# The kinds of expressions: the text, with the names of the new parameters, and their
# values, from the value that they stand for, a random number of (0.3, 0.8) and tau.
_Values = Callable[[float, float, float], tuple[float, ...]]
_EXPRESSIONS: dict[str, tuple[str, _Values]] = {
    "sum": ("({0} + {1})", lambda v, u, tau: (u * v, (1 - u) * v)),
    "difference": ("({0} - {1})", lambda v, u, tau: ((1 + u) * v, u * v)),
    "product": ("{0} * {1}", lambda v, u, tau: (v / (2 * u), 2 * u)),
    "ratio": ("{0} / {1}", lambda v, u, tau: (v * 2 * u, 2 * u)),
    "survival": ("{0} * exp(-{1} * tau)", lambda v, u, tau: (v * np.exp(u), u / tau)),
    "exponential": ("{0} * exp(-{1})", lambda v, u, tau: (v * np.exp(u), u)),
    "product of a sum": (
        "{0} * ({1} + {2})",
        lambda v, u, tau: (v / (2 * u), 2 * u * 0.4, 2 * u * 0.6),
    ),
}


@final
@dataclass(frozen=True)
class RedundantCase:
    """A random case, and the expression that stands in it for one parameter; None if
    nothing was replaced. `bounds` are those that a fit is given."""

    case: Case
    kind: str | None
    expression: str | None
    bounds: Mapping[str, dd.Parameter] | None


def redundant_case(number: int) -> RedundantCase:
    """The case of this number, which is always the same."""
    drawn = case(number)
    random = np.random.default_rng([_SEED, number])
    keys = history_names(read_model(drawn.text))
    names = [n for n in drawn.truth if n not in keys and not n.startswith("tau")]
    is_replaced = random.random() < _REPLACED and "tau" in drawn.truth
    kind = expression = None
    if is_replaced:
        kind = str(random.choice(list(_EXPRESSIONS)))
        name = str(random.choice(names))
        drawn, expression = _replaced(drawn, kind, name, random.uniform(0.3, 0.8))
    bounds = drawn.bounds
    if random.random() < _BOUNDED:
        bounds = {
            name: dd.Parameter(lower=value / _BOUND_FACTOR, upper=value * _BOUND_FACTOR)
            for name, value in drawn.truth.items()
            if value > 0 and name not in keys
        }
    elif bounds is not None:
        bounds = {name: each for name, each in bounds.items() if name in drawn.truth}
    return RedundantCase(drawn, kind, expression, bounds)


def _replaced(drawn: Case, kind: str, name: str, share: float) -> tuple[Case, str]:
    """The case with an expression in the place of parameter `name`."""
    pattern, values = _EXPRESSIONS[kind]
    new = values(drawn.truth[name], share, drawn.truth["tau"])
    names = [f"{name}{letter}" for letter in "uvw"[: len(new)]]
    expression = pattern.format(*names)
    text = re.sub(rf"\b{name}\b", f"({expression})", drawn.text)
    truth = {key: value for key, value in drawn.truth.items() if key != name}
    truth |= {key: float(value) for key, value in zip(names, new)}
    return replace(drawn, text=text, truth=truth), expression
