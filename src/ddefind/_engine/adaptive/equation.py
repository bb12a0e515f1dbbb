"""A problem as a function of time and state that reads its own past.

The delays of a problem are numbered, and so are the *reads*: a number and a varying
delay read the past once, and a distributed one at every node of its kernel. A kernel
without nodes, a uniform one, is read at its two ends: the state is extended by the
integral of x, and the mean between two delays is a difference of two values of that
integral.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._problem.delays import AbstractDistributedDelay, in_structure, is_delay
from ..._problem.general_delays import AbstractVaryingDelay, delay_at, has_slope
from ..._problem.problem import Problem
from .distributions import KernelSums, integral_before, kernel_sums
from .pieces import AbstractRows, Sides, StagePast

# The rows that a stage reads, given its number.
RowsOf = Callable[[Any], AbstractRows]


@final
@dataclass(frozen=True)
class TrackedRead:
    """A read that carries the kinks of the past into the solution.

    A kink in the derivative m of x becomes one in the derivative m + `smoothing`.
    `is_constant` says whether its delay is known in advance, `delay` is the number of
    the delay, and `end` which end of a kernel is read."""

    delay: int
    smoothing: int
    is_constant: bool
    end: int = 0


@final
@dataclass(frozen=True)
class ReadPlan:
    """The reads of a problem: the first read of each delay, the number of all reads,
    and the reads that carry kinks."""

    first: tuple[int, ...]
    count: int
    tracked: tuple[TrackedRead, ...]


def leaves_of(tau: Any) -> list[Any]:
    """Return the delays of a problem, in the order of their numbers."""
    return jax.tree.leaves(tau, is_leaf=is_delay)


def _is_window(leaf: Any) -> bool:
    """Whether a delay has a kernel without nodes."""
    return isinstance(leaf, AbstractDistributedDelay) and leaf.kernel.nodes is None


def plan_reads(tau: Any) -> ReadPlan:
    """Return the reads of a problem with the delays `tau`."""
    first, count, tracked = [], 0, []
    for q, leaf in enumerate(leaves_of(tau)):
        first.append(count)
        if _is_window(leaf):
            tracked += [TrackedRead(q, 2, True, end) for end in (0, 1)]
            count += 2
        elif isinstance(leaf, AbstractDistributedDelay):
            count += leaf.kernel.nodes[0]
        else:
            is_constant = not isinstance(leaf, AbstractVaryingDelay) or leaf.is_constant
            tracked.append(TrackedRead(q, 0 if has_slope(leaf) else 1, is_constant))
            count += 1
    return ReadPlan(tuple(first), count, tuple(tracked))


# The tolerated error of each component, given the state at the end of the step.
Scale = Callable[[jax.Array], jax.Array]


class StepStart(NamedTuple):
    """The beginning of a step: its time, state and length; and the sides of breaking
    points on which its reads stay."""

    t: Any
    x: jax.Array
    length: Any
    sides: Sides | None


class Step(NamedTuple):
    """A step: the coefficients of its piece [degree + 1, d], its error, where each
    stage found its reads, whether guess and result agree, and the least of its delays.
    """

    coefficients: jax.Array
    error: jax.Array
    hints: jax.Array
    is_agreed: Any
    delays: jax.Array


class Slope(NamedTuple):
    """The slope of the state; the hints for the next search; `inside`, the share from 0
    to 1 of what was read that is part of the present step; and the delays, [k]."""

    value: jax.Array
    hints: Any
    inside: jax.Array
    delays: jax.Array


@final
class ExtendedEquation(eqx.Module):
    """The equation of a problem, for the extended state of `dimension` components."""

    problem: Problem

    @property
    def leaves(self) -> list[Any]:
        """The delays."""
        return leaves_of(self.problem.tau)

    @property
    def plan(self) -> ReadPlan:
        """The reads."""
        return plan_reads(self.problem.tau)

    @property
    def has_integral(self) -> bool:
        """Whether the state is extended by its integral."""
        return any(map(_is_window, self.leaves))

    @property
    def is_neutral(self) -> bool:
        """Whether slopes of the past are read."""
        return any(map(has_slope, self.leaves))

    @property
    def has_switches(self) -> bool:
        """Whether the right-hand side or the history jumps at certain times."""
        return self.problem.has_switches

    @property
    def dimension(self) -> int:
        """The number of components of the extended state."""
        return self.problem.dimension * (2 if self.has_integral else 1)

    def start(self) -> jax.Array:
        """Return the extended state at time zero."""
        x = self.problem.start
        return jnp.concatenate([x, jnp.zeros_like(x)]) if self.has_integral else x

    def history(self, t: Any) -> tuple[jax.Array, jax.Array]:
        """Return the extended state before time zero, and its slope if neutral."""
        if not self.is_neutral:
            state = self._history(t)
            return state, jnp.zeros_like(state)
        return jax.jvp(self._history, (t,), (jnp.ones_like(t),))

    def _history(self, t: Any) -> jax.Array:
        x = self.problem.history(t)
        if not self.has_integral:
            return x
        return jnp.concatenate([x, integral_before(self.problem.history, t)])

    def kernels(
        self, rows_of: RowsOf, times: jax.Array, start: Any, hints: jax.Array
    ) -> tuple[list[KernelSums], jax.Array]:
        """Return the known sums of each kernel with nodes before the step from `start`
        is made, for stages at the given `times`; and where its nodes were found."""
        sums = []
        for leaf, first in zip(self.leaves, self.plan.first):
            if isinstance(leaf, AbstractDistributedDelay) and not _is_window(leaf):
                d, history = self.problem.dimension, self.problem.history
                known, hints = kernel_sums(
                    leaf(), history, rows_of, times, start, first, hints, d
                )
                sums.append(known)
        return sums, hints

    def slope(
        self,
        past: StagePast,
        t: Any,
        x: jax.Array,
        hints: Any,
        kernels: list[KernelSums],
    ) -> Slope:
        """Return the slope of the extended state `x` at the time `t`, given the sums of
        the kernels at this stage."""
        d = self.problem.dimension
        state, inside = x[:d], jnp.zeros(())
        taus, ys, kernels = [], [], list(kernels)
        for leaf, first in zip(self.leaves, self.plan.first):
            tau = delay_at(leaf, t, state)
            if _is_window(leaf):
                y, share, hints = self._between(leaf().span(), first, past, t, hints)
            elif isinstance(leaf, AbstractDistributedDelay):
                y, share = kernels.pop(0).mean(t, past, d)
            else:
                found, hints = past.read(first, t - tau, hints)
                share = jnp.where(found.is_inside, 1.0, 0.0)
                y = found.state[:d]
                y = (y, found.slope[:d]) if has_slope(leaf) else y
                if self.has_switches and past.sides is not None:
                    # An input that is read at t - tau stays on the same side.
                    tau = t + past.nudge - past.kept(first, t - tau)
            inside = jnp.maximum(inside, share)
            taus.append(jnp.asarray(tau))
            ys.append(y)
        tau = self.problem.tau
        time = t + past.nudge if self.has_switches else t
        slope = self.problem.rhs(
            state, in_structure(tau, ys), in_structure(tau, taus), time
        )
        if self.has_integral:
            slope = jnp.concatenate([slope, state])
        return Slope(slope, hints, inside, jnp.stack(taus))

    def _between(self, ends, first: int, past: StagePast, t, hints):
        """Return the mean of x between two delays, from its integral."""
        d = self.problem.dimension
        low, high = ends
        late, hints = past.read(first, t - low, hints)
        early, hints = past.read(first + 1, t - high, hints)
        mean = (late.state[d:] - early.state[d:]) / (high - low)
        share = jnp.where(late.is_inside | early.is_inside, 1.0, 0.0)
        return mean, share, hints

    def delayed_time(self, tracked: TrackedRead, t: Any, x: jax.Array) -> jax.Array:
        """Return the time that a tracked read looks at, at the time `t` in the state
        `x`."""
        leaf = self.leaves[tracked.delay]
        if isinstance(leaf, AbstractDistributedDelay):
            return t - leaf().span()[tracked.end]
        return t - delay_at(leaf, t, x[: self.problem.dimension])
