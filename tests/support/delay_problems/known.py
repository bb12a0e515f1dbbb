"""What is known of a problem: its solution, and how that was found."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

import ddefind as dd


@final
@dataclass(frozen=True)
class Known:
    """- `kind`: the kind of equation and delay, in words.
    - `problem`, `T`: it is solved on [0, T].
    - `exact(t)`: the solution at a vector of times; or `values`, the state at some
      times. `source` says how they were found.
    - `stiff`: whether it needs a stiff solver.
    - `goal`: the largest error that is accepted at a relative tolerance of 1e-8."""

    name: str
    kind: str
    problem: dd.Problem
    T: float
    source: str = "collocation at two tolerances: 14 digits agree"
    exact: Callable[[np.ndarray], Any] | None = None
    values: dict[float, list[float]] | None = None
    stiff: bool = False
    goal: float = 1e-5

    def times(self) -> np.ndarray:
        """The times at which solutions are compared."""
        if self.values is not None:
            return np.array(list(self.values), float)
        return np.linspace(0.0, self.T, 102)[1:]

    def states(self) -> np.ndarray:
        """The solution at these times, of shape (times, d)."""
        if self.values is not None:
            return np.array(list(self.values.values()), float)
        assert self.exact is not None
        states = np.asarray(self.exact(self.times()), float)
        return states[:, None] if states.ndim == 1 else states

    def error(self, found: Any) -> float:
        """The largest error at the times, each component relative to its largest
        value."""
        states = self.states()
        size = np.maximum(np.abs(states).max(axis=0), np.abs(self.problem.start))
        return float(np.max(np.abs(np.asarray(found) - states) / size))

    def solver(self, rtol: float) -> dd.Tsit5 | dd.Radau:
        """The solver that fits the problem."""
        return dd.Radau(rtol) if self.stiff else dd.Tsit5(rtol)


def stack(*components: Any) -> jax.Array:
    """A state from its components."""
    return jnp.stack([jnp.asarray(component, float) for component in components])


def table(text: str, d: int) -> dict[float, list[float]]:
    """The states at some times, from a text of each time and its `d` components."""
    numbers = np.array(text.split(), float).reshape(-1, d + 1)
    return {t: state for t, *state in numbers.tolist()}


def after(start: float, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the time since `start`, for a function of the time itself."""
    return lambda t, *rest: function(t + start, *rest)
