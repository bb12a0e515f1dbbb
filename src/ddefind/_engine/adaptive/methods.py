"""What an adaptive solver is: a step, its error, and its piece of the solution."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np

from ..._util import wording
from ..runge_kutta import AbstractIntegrator
from .equation import ExtendedEquation, RowsOf, Scale, Step, StepStart


def _number(value: Any) -> float:
    """Return a number, or NaN for what is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def check_rtol(rtol: Any) -> float:
    """Return `rtol` as a number, or raise an error unless it is possible."""
    if not 1e-13 <= _number(rtol) <= 0.1:
        raise ValueError(
            f"{wording.TOLERANCE} must be a number from 1e-13 to 0.1, as 1e-6, got "
            f"{rtol!r}."
        )
    return _number(rtol)


def check_atol(atol: Any) -> float | None:
    """Return `atol` as a number or None, or raise an error unless it is possible."""
    if atol is not None and not 0 < _number(atol) < np.inf:
        raise ValueError(f"`atol` must be a positive number or None, got {atol!r}.")
    return None if atol is None else _number(atol)


class AbstractAdaptive(AbstractIntegrator):
    """A solver that chooses its steps so that the error in each of them is small. It is
    a file of its own: its numbers, and how it makes a step.

    - `rtol`: the tolerated error in a step relative to the state.
    - `atol`: the tolerated absolute error; None means a thousandth of `rtol` times the
      value that the component has had in recent steps.
    - `power`: the power of the step with which its estimate of the error falls.
    - `highest`: a jump of this derivative of x, or of a lower one, must be on a node.

    A step reads the past, and maybe itself. Its stages find their reads by `hints`, the
    numbers of pieces, [stages, reads]."""

    rtol: eqx.AbstractVar[float]
    atol: eqx.AbstractVar[float | None]
    power: eqx.AbstractClassVar[int]
    highest: eqx.AbstractClassVar[int]
    chooses_steps: ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def degree(self) -> int:
        """The degree of a piece of the solution."""

    @property
    @abc.abstractmethod
    def stages(self) -> int:
        """How often a step evaluates the right-hand side."""

    @abc.abstractmethod
    def step(
        self,
        equation: ExtendedEquation,
        rows_of: RowsOf,
        start: StepStart,
        guess: jax.Array,
        hints: jax.Array,
        scale: Scale,
    ) -> Step:
        """Make one step; the piece `guess` is a first approximation of it."""

    @abc.abstractmethod
    def reads(
        self,
        equation: ExtendedEquation,
        rows_of: RowsOf,
        start: StepStart,
        coefficients: jax.Array,
        hints: jax.Array,
    ) -> jax.Array:
        """Return where each stage of a step, which made a piece, found its reads."""

    @abc.abstractmethod
    def piece(
        self,
        equation: ExtendedEquation,
        rows_of: RowsOf,
        start: StepStart,
        guess: jax.Array,
        hints: jax.Array,
    ) -> jax.Array:
        """Return the coefficients of a step that reads itself as the piece `guess`,
        which is that of the step."""

    @abc.abstractmethod
    def pull(self, pull: Callable[[jax.Array], Any], cotangent: jax.Array) -> Any:
        """Return the cotangents of a step's inputs from that of its piece, given the
        VJP of `piece` for (inputs, guess)."""

    @property
    def tolerances(self) -> dict[str, Any]:
        return {"rtol": self.rtol, "atol": self.atol}

    def with_tolerance(self, rtol: float) -> Any:
        atol = None if self.atol is None else rtol / self.rtol * self.atol
        kind: Any = type(self)
        return kind(rtol=rtol, atol=atol)

    def steps(self) -> str:
        return f"adaptive steps, relative tolerance {self.rtol:g}"

    def about(self) -> list[str]:
        name = wording.solver_name(type(self).__name__)
        stiff = ", for stiff equations" if self.is_for_stiff else ""
        return [f"Solved by {name}, with adaptive steps{stiff}."]

    def remedy(self) -> str:
        name = type(self).__name__
        return f"Give a smaller tolerance, as {wording.tolerance(name, '1e-9')}."
