"""Solvers: explicit one-step methods.

A solver has nothing to do with delays. It gets the slope x' as a function of a fraction
of the step and of the state; the delayed state is inside that function.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import equinox as eqx
import jax

from .._util import wording


@final
@dataclass(frozen=True)
class Tableau:
    """A Butcher tableau: stage i is evaluated at the fraction `c[i]` of the step, from
    the slopes before it with the weights `a[i]`; the result has the weights `b`."""

    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    c: tuple[float, ...]


class AbstractIntegrator(eqx.Module):
    """A method that solves equations: an `AbstractSolver` with fixed steps, or an
    `AbstractAdaptive` that chooses them by their error.

    `chooses_steps` says which; `choose.py` alone asks. `is_for_stiff` says whether fast
    processes do not limit its steps."""

    order: eqx.AbstractClassVar[int]
    chooses_steps: eqx.AbstractClassVar[bool]
    is_for_stiff: eqx.AbstractClassVar[bool]

    @property
    @abc.abstractmethod
    def tolerances(self) -> dict[str, Any] | None:
        """The tolerances by name; None if the steps are fixed."""

    @abc.abstractmethod
    def with_tolerance(self, rtol: float) -> Any:
        """Return the solver with this relative tolerance; None if it has none."""

    @abc.abstractmethod
    def steps(self) -> str:
        """Say how the steps are chosen, if the solver does it."""

    @abc.abstractmethod
    def about(self) -> list[str]:
        """Return a sentence about the solver, if it chooses its steps."""

    @abc.abstractmethod
    def remedy(self) -> str:
        """Say what makes a solution more accurate."""


class AbstractSolver(AbstractIntegrator):
    """An explicit one-step method; a new one needs `order`, `fractions` and `step`.

    `fractions` are the distinct fractions of a step, in (0, 1], at which `step`
    evaluates slopes, beside its beginning.
    """

    chooses_steps: ClassVar[bool] = False
    is_for_stiff: ClassVar[bool] = False
    fractions: eqx.AbstractClassVar[tuple[float, ...]]

    @abc.abstractmethod
    def step(
        self,
        slope: Callable[[float, jax.Array], jax.Array],
        x: jax.Array,
        first: jax.Array,
        h: Any,
    ) -> jax.Array:
        """Return the state one step of length `h` after the state `x`.

        `slope(c, x)` is x' at the fraction `c` of the step, and `first` is `slope(0,
        x)`, which the caller has evaluated already."""

    @property
    def tolerances(self) -> None:
        return None

    def with_tolerance(self, rtol: float) -> None:
        return None

    def steps(self) -> str:
        return ""

    def about(self) -> list[str]:
        return []

    def remedy(self) -> str:
        return f"Give a larger {wording.STEPS}."


def _runge_kutta(tableau: Tableau, slope, x, first, h) -> jax.Array:
    slopes = [first]
    for row, c in zip(tableau.a[1:], tableau.c[1:]):
        slopes.append(slope(c, _add(x, h, row, slopes)))
    return _add(x, h, tableau.b, slopes)


def _add(x, h, weights, slopes) -> jax.Array:
    """Return x + h (w . slopes), with the slopes added one by one: few operations then
    wait for the last slope, and the longest chain of operations limits the speed."""
    for w, k in zip(weights, slopes):
        if w != 0:
            x = x + (h * w) * k
    return x


@final
class Euler(AbstractSolver):
    """Euler's method: one stage, order 1.

    >>> Euler().order
    1
    """

    order: ClassVar[int] = 1
    fractions: ClassVar[tuple[float, ...]] = ()

    def step(self, slope, x, first, h):
        return x + h * first


@final
class RK2(AbstractSolver):
    """Heun's method: two stages, order 2; the paper's solver.

    >>> RK2().order
    2
    """

    order: ClassVar[int] = 2
    fractions: ClassVar[tuple[float, ...]] = (1.0,)
    tableau: ClassVar[Tableau] = Tableau(a=((), (1.0,)), b=(0.5, 0.5), c=(0.0, 1.0))

    def step(self, slope, x, first, h):
        return _runge_kutta(self.tableau, slope, x, first, h)


@final
class RK4(AbstractSolver):
    """The classical Runge-Kutta method: four stages, order 4.

    >>> RK4().order
    4
    """

    order: ClassVar[int] = 4
    fractions: ClassVar[tuple[float, ...]] = (0.5, 1.0)
    tableau: ClassVar[Tableau] = Tableau(
        a=((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)),
        b=(1 / 6, 1 / 3, 1 / 3, 1 / 6),
        c=(0.0, 0.5, 0.5, 1.0),
    )

    def step(self, slope, x, first, h):
        return _runge_kutta(self.tableau, slope, x, first, h)
