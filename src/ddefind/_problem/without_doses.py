r"""A problem with doses as one without: all solvers see the latter.

At a dose the state x jumps. Its *continuous part* z does not: with the sum D(t) of all
jumps up to the time t,

$$x(t) = z(t) + D(t), \qquad
  z'(t) = F\bigl(z(t) + D(t),\ z(t - \tau) + D(t - \tau),\ \tau,\ t\bigr) + r(t),$$

where r are the rates of the infusions. Only the right-hand side jumps, at the time
$t_k$ of each dose and at $t_k + \tau$: as with an input that is made of steps.

Setting a state $x_i$ to c at the time s is a jump by $c - x_i(s^-)$, which depends on
the solution. A hidden component w follows $z_i$ up to the time s and then rests, so
that $z_i(s) = w(t)$ is known at all later times.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .delays import AbstractDistributedDelay, in_structure, is_delay
from .doses import Doses
from .general_delays import KnownTimes, Reads, has_slope
from .kernels import AbstractKernel
from .problem import Problem, with_parts


def hidden_count(problem: Problem) -> int:
    """Return the number of hidden components."""
    return 0 if problem.doses is None else len(problem.doses.sets)


def without_doses(problem: Problem) -> Problem:
    """Return the problem of the continuous part z, or a problem without doses as it is.
    `problem` may also be a part of one, with None in place of some of its arrays: the
    result is the same part of the whole result."""
    doses = problem.doses
    if doses is None:
        return problem
    parts: dict[str, Any] = {
        "rhs": DosedRhs(problem.rhs, doses, problem.tau),
        "observe": _DosedObserve(problem.observe, doses),
        "switches": _DosedSwitches(problem.switches),
        "doses": None,
    }
    if doses.sets:
        parts["history"] = _DosedHistory(problem.history, doses)
    if doses.has_initial:
        parts["initial"] = _DosedStart(problem.initial)
    return with_parts(problem, **parts)


def _original(problem: Problem) -> Problem:
    """Return the problem with doses that a problem was made from."""
    rhs, history, initial = problem.rhs, problem.history, problem.initial
    assert isinstance(rhs, DosedRhs)
    return with_parts(
        problem,
        rhs=rhs.rhs,
        observe=problem.observe.observe,  # type: ignore[union-attr]
        switches=problem.switches.switches,  # type: ignore[union-attr]
        history=history.history if isinstance(history, _DosedHistory) else history,
        initial=initial.initial if isinstance(initial, _DosedStart) else initial,
        doses=rhs.doses,
    )


@final
class DosedRhs(eqx.Module):
    """The slope of z and of the hidden components. `tau` are the problem's delays."""

    rhs: Any
    doses: Doses
    tau: Any

    def __call__(self, z, y, tau, t):
        doses, d = self.doses, self.doses.dimension
        before = z[d:]
        leaves = jax.tree.leaves(self.tau, is_leaf=is_delay)
        structure = jax.tree.structure(self.tau, is_leaf=is_delay)
        numbers, delayed = structure.flatten_up_to(tau), structure.flatten_up_to(y)
        states = []
        for leaf, number, delayed_state in zip(leaves, numbers, delayed):
            past, *slope = delayed_state if has_slope(leaf) else (delayed_state,)
            if isinstance(leaf, AbstractDistributedDelay):
                past = past[:d] + _mean_added(doses, leaf(), t, before)
            else:
                past = past[:d] + doses.added(t - number, before)
            states.append((past, slope[0][:d]) if slope else past)
        x = z[:d] + doses.added(t, before)
        slope = self.rhs(x, in_structure(self.tau, states), tau, t) + doses.rates(t)
        if not doses.sets:
            return slope
        follows = [
            jnp.where(t < doses.times_of(event)[0], slope[event.state], 0.0)
            for event in doses.sets
        ]
        return jnp.concatenate([slope, jnp.stack(follows)])

    def moving_times(self) -> list[jax.Array]:
        """Return the times of the doses that depend on parameters: for each event its
        first time, and the end of an infusion."""
        doses, found = self.doses, []
        for event in doses.events:
            if event.times.name is not None:
                found.append(doses.values[event.times.name])
            if event.duration is not None and event.duration.name is not None:
                # The end of an infusion moves in another way than its beginning.
                begin, end = event.times.name, doses.values[event.duration.name]
                found.append(end if begin is None else end + doses.values[begin])
        return found

    def known_times(self, first: int, delays: int) -> list[KnownTimes]:
        """Return the tables of the times of the doses. Moving times are numbered from
        `first` on, and are added to their tables."""
        found, mover = [], first
        every = tuple(range(delays))
        for event in self.doses.events:
            its_mover = None
            if event.times.name is not None:
                its_mover, mover = mover, mover + 1
            reads = Reads(True, () if event.duration is not None else every)
            found.append(KnownTimes(event.times.numbers, 1, reads, mover=its_mover))
            if event.duration is None:
                continue
            ends = event.times.numbers
            if event.duration.name is None:
                ends = ends + event.duration.numbers
            else:
                its_mover, mover = mover, mover + 1
            found.append(KnownTimes(ends, 1, Reads(True, ()), mover=its_mover))
        return found


def _mean_added(
    doses: Doses, kernel: AbstractKernel, t: Any, before: jax.Array
) -> jax.Array:
    """Return the mean of D over a distribution of delays: each jump counts by the share
    of the distribution that has passed it."""
    total = jnp.zeros(doses.dimension)
    for state, times, amounts in doses.jumps(before):
        since = jnp.maximum(t - times, 0.0)
        share = kernel.share(jnp.where(since > 0, since, 1.0))
        share = jnp.where(since > 0, share, 0.0)
        total = total.at[state].add(jnp.sum(share * amounts))
    return total


@final
class _DosedObserve(eqx.Module):
    observe: Any
    doses: Doses

    def __call__(self, z, t):
        x = self.doses.state(z, t)
        return x if self.observe is None else self.observe(x, t)


def _with_hidden(x: jax.Array, doses: Doses) -> jax.Array:
    """Return a state with hidden components, which begin at the states to be set."""
    if not doses.sets:
        return x
    sets = np.array([event.state for event in doses.sets])
    return jnp.concatenate([x, x[sets]])


@final
class _DosedHistory(eqx.Module):
    history: Any
    doses: Doses

    def __call__(self, t):
        return _with_hidden(self.history(t), self.doses)


@final
class _DosedStart(eqx.Module):
    """`initial` is an array, or a function of the problem."""

    initial: Any

    def __call__(self, problem):
        original = _original(problem)
        assert original.doses is not None
        return _with_hidden(original.start, original.doses)


@final
class _DosedSwitches(eqx.Module):
    """The moving switches of the problem, and those of its doses."""

    switches: Any

    def __call__(self, problem):
        switches = _original(problem).moving_times
        of_doses = problem.rhs.moving_times()
        return jnp.concatenate([switches, *(time[None] for time in of_doses)])
