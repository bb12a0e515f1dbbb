"""Doses: amounts that are given to a state at certain times, and states that are set.

A user writes `Dose` and `SetState`. A problem holds them as `Doses`: tables of times
and amounts, which are constants, and the values of the parameters among them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._util.arrays import as_parameter, is_concrete
from .._util.errors import shown


@final
@dataclass(frozen=True)
class Dose:
    """An amount that is added to a state.

    **Arguments**

    - `state`: the name of the state in a text, or its number in a `Problem`.
    - `amount`: what is added.
    - `time`: when. A measurement at this very time was taken just before the dose.
    - `duration`: how long it takes: the amount is given at a constant rate (an
      infusion). By default it is given at once (a bolus).
    - `every`, `count`: the dose is given `count` times, with the time `every` between.

    An amount, a time and a duration are numbers, which are known; or names, which are
    parameters of a text: one that the text does not have is a new parameter. In a
    `Problem`, an array of JAX is a parameter, as `jnp.asarray(2.0)`.

    >>> import ddefind as dd
    >>> model = dd.equation("x' = -k * x(t - tau)", history=0.0)
    >>> problem = model.problem(k=0.5, tau=1.0, doses=[dd.Dose("x", 2.0, time=1.0)])
    >>> dd.solve(problem, T=2.0)([1.0, 1.5, 2.0])[:, 0]
    Array([0., 2., 2.], dtype=float64)
    """

    state: int | str
    amount: Any
    time: Any
    duration: Any = None
    every: float | None = None
    count: int = 1

    def __post_init__(self):
        _check_state(self.state)
        is_whole = isinstance(self.count, int | np.integer) and self.count >= 1
        if isinstance(self.count, bool) or not is_whole:
            raise ValueError(
                f"`count` must be a positive integer, but got {shown(self.count)}."
            )
        if (self.count > 1) != (self.every is not None):
            raise ValueError(
                "`every` and `count` belong together: give both, as every=24.0, "
                f"count=5, or neither, but got every={self.every}, count={self.count}."
            )
        if self.every is not None and not 0 < _number("every", self.every) < np.inf:
            raise ValueError(f"`every` must be positive, but got {self.every!r}.")


@final
@dataclass(frozen=True)
class SetState:
    """A state that is set to a value at a certain time, as by a dilution or a harvest.

    The arguments are those of `Dose`; `value` is a number or the name of a parameter.

    >>> import ddefind as dd
    >>> model = dd.equation("x' = -k * x(t - tau)", history=1.0)
    >>> problem = model.problem(k=0.0, tau=1.0, doses=[dd.SetState("x", 5.0, time=1.0)])
    >>> dd.solve(problem, T=2.0)([1.0, 1.5])[:, 0]
    Array([1., 5.], dtype=float64)
    """

    state: int | str
    value: Any
    time: Any

    def __post_init__(self):
        _check_state(self.state)


@final
class Quantity(eqx.Module):
    """An amount, a time or a duration: numbers [n], and the name of its parameter, if
    it has one. A time is the parameter plus the numbers; other quantities are the
    parameter itself."""

    numbers: np.ndarray
    name: str | None = eqx.field(static=True)

    def at(self, values: Mapping[str, Any]) -> Any:
        """Return the quantity, [n]."""
        numbers = jnp.asarray(self.numbers)
        return numbers if self.name is None else numbers + values[self.name]


@final
class Event(eqx.Module):
    """A change of a state at the times [n]: an amount is added, at once or during a
    time, or the state `is_set` to it."""

    state: int = eqx.field(static=True)
    times: Quantity
    amounts: Quantity
    duration: Quantity | None
    is_set: bool = eqx.field(static=True)


class Jumps(NamedTuple):
    """Times [n] at which a state jumps, and by how much [n]."""

    state: int
    times: Any
    amounts: Any


@final
class Doses(eqx.Module):
    """All doses of a problem. `values` are the parameters by name; `has_initial` says
    whether the problem has an `initial` of its own, and `is_padded` whether some doses
    are never given."""

    values: dict[str, Any]
    events: tuple[Event, ...]
    dimension: int = eqx.field(static=True)
    has_initial: bool = eqx.field(static=True)
    is_padded: bool = eqx.field(static=True, default=False)

    @property
    def sets(self) -> list[Event]:
        """The events that set a state."""
        return [event for event in self.events if event.is_set]

    @property
    def boluses(self) -> list[Event]:
        """The doses that are given at once."""
        return [e for e in self.events if not e.is_set and e.duration is None]

    @property
    def infusions(self) -> list[Event]:
        """The doses that take their time."""
        return [e for e in self.events if e.duration is not None]

    def times_of(self, event: Event) -> Any:
        """Return the times of an event, [n]."""
        return event.times.at(self.values)

    def amounts_of(self, event: Event) -> Any:
        """Return the amounts of an event, [n]."""
        return event.amounts.at(self.values)

    def ends_of(self, event: Event) -> Any:
        """Return when an infusion ends, [n]."""
        assert event.duration is not None
        return self.times_of(event) + event.duration.at(self.values)

    def rates(self, t: Any) -> jax.Array:
        """Return the slope that the infusions add at the time `t`, [d]."""
        total = jnp.zeros(self.dimension)
        for event in self.infusions:
            begin, end = self.times_of(event), self.ends_of(event)
            is_on = (t > begin) & (t < end)
            rate = jnp.where(is_on, self.amounts_of(event) / (end - begin), 0.0)
            total = total.at[event.state].add(jnp.sum(rate))
        return total

    def jumps(self, before: jax.Array) -> list[Jumps]:
        """Return the jumps of the states. `before` [sets] is the continuous part of
        each state just before it is set; it must be right for times afterwards."""
        found = [
            Jumps(event.state, self.times_of(event), self.amounts_of(event))
            for event in self.boluses
        ]
        sets = [
            (event.state, self.times_of(event)[0], self.amounts_of(event)[0] - was)
            for event, was in zip(self.sets, before)
        ]
        for state, time, level in sets:
            # The last time at which the state was set before, and its gain since then.
            last, gained = jnp.asarray(-jnp.inf), jnp.zeros(())
            for other, other_time, other_level in sets:
                if other == state:
                    is_later = (other_time < time) & (other_time > last)
                    last = jnp.where(is_later, other_time, last)
                    gained = jnp.where(is_later, other_level, gained)
            for jump in found[: len(self.boluses)]:
                if jump.state == state:
                    is_since = (jump.times < time) & (jump.times >= last)
                    gained += jnp.sum(jnp.where(is_since, jump.amounts, 0.0))
            found.append(Jumps(state, time[None], (level - gained)[None]))
        return found

    def added(self, t: Any, before: jax.Array) -> jax.Array:
        """Return the sum of the jumps of the states up to the time `t`, [d]."""
        total = jnp.zeros(self.dimension)
        for state, times, amounts in self.jumps(before):
            total = total.at[state].add(jnp.sum(jnp.where(t > times, amounts, 0.0)))
        return total

    def state(self, z: jax.Array, t: Any) -> jax.Array:
        """Return the state x at the time `t`, given the continuous part `z` with its
        hidden components."""
        # A measurement that differs from the time of a dose by rounding only was taken
        # just before the dose.
        early = t - 1e-10 * jnp.abs(t)
        return z[: self.dimension] + self.added(early, z[self.dimension :])


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must be a number, but got {shown(value)}.") from None


def _check_state(state: Any) -> None:
    is_number = isinstance(state, int | np.integer) and not isinstance(state, bool)
    if not isinstance(state, str) and not is_number:
        raise TypeError(
            "`state` of a dose is the name of a state in a text, or its number in a "
            f"`Problem`, but got {shown(state)}."
        )


def make_doses(
    doses: Any, dimension: int, has_initial: bool, values: Mapping[str, Any] = {}
) -> "Doses | None":
    """Return the argument `doses` of a problem, or None if there are none. The `values`
    of named parameters are known if the doses belong to a text."""
    if isinstance(doses, Doses):
        check_doses(doses)
    if doses is None or isinstance(doses, Doses):
        return doses
    known = dict(values)
    events = [_event(d, i, dimension, known) for i, d in enumerate(as_sequence(doses))]
    result = Doses(known, tuple(_merged(events)), dimension, has_initial)
    check_doses(result)
    return result if events else None


def as_sequence(doses: Any) -> Sequence[Dose | SetState]:
    """Return the argument `doses` as a sequence."""
    is_several = isinstance(doses, Iterable) and not isinstance(doses, str)
    items: list[Any] = list(doses) if is_several else [doses]
    for item in items:
        if not isinstance(item, Dose | SetState):
            raise TypeError(
                "`doses` are `dd.Dose(state, amount, time)` and `dd.SetState(state, "
                f"value, time)`, but one is {shown(item)}."
            )
    return items


def _event(
    dose: Dose | SetState, number: int, dimension: int, values: dict[str, Any]
) -> Event:
    if isinstance(dose.state, str):
        raise TypeError(
            f"A `Problem` has no names of states: give the number of {dose.state!r}."
        )
    if not 0 <= dose.state < dimension:
        raise ValueError(
            f"There is no state number {dose.state} for a dose: the problem has "
            f"{dimension}, counted from 0."
        )

    def quantity(name: str, value: Any, offsets: np.ndarray) -> Quantity:
        if isinstance(value, jax.Array):
            value, key = as_parameter(value), f"{name}_{number}"
            values[key] = value
            return Quantity(offsets, key)
        if isinstance(value, str):
            if value not in values:
                raise ValueError(
                    f"`{name}` of a dose is the name {value!r}, but names are for "
                    "texts. In a `Problem`, a parameter is an array of JAX: "
                    f"`{name}=jnp.asarray(1.0)`."
                )
            return Quantity(offsets, value)
        finite = _number(name, value)
        if not np.isfinite(finite):
            raise ValueError(f"`{name}` of a dose must be finite, but is {finite}.")
        return Quantity(offsets + finite, None)

    state = int(dose.state)
    if isinstance(dose, SetState):
        zero = np.zeros(1)
        time, value = quantity("time", dose.time, zero), dose.value
        return Event(state, time, quantity("value", value, zero), None, True)
    zeros = np.zeros(dose.count)
    offsets = zeros + (dose.every or 0) * np.arange(dose.count)
    times = quantity("time", dose.time, offsets)
    amounts, duration = quantity("amount", dose.amount, zeros), dose.duration
    if duration is not None:
        duration = quantity("duration", duration, zeros)
    return Event(state, times, amounts, duration, False)


def _merged(events: list[Event]) -> list[Event]:
    """Return the events, in one table if they differ in numbers only, by time."""
    groups: dict[Any, list[Event]] = {}
    for number, event in enumerate(events):
        names = event.times.name, event.amounts.name
        duration = (event.duration.name,) if event.duration is not None else None
        is_alone = number if event.is_set else None
        groups.setdefault((event.state, names, duration, is_alone), []).append(event)
    return [_joined(group) for group in groups.values()]


def _joined(group: list[Event]) -> Event:
    first = group[0]
    times = np.concatenate([event.times.numbers for event in group])
    order = np.argsort(times, kind="stable")

    def together(name: str) -> Any:
        parts = [getattr(event, name) for event in group]
        if parts[0] is None:
            return None
        numbers = np.concatenate([part.numbers for part in parts])[order]
        return Quantity(numbers, parts[0].name)

    tables = together("times"), together("amounts"), together("duration")
    return Event(first.state, *tables, first.is_set)


def check_doses(doses: Doses) -> None:
    """Raise an error if infusions have no length or overlap, as far as is known."""
    spans: dict[int, list[tuple[float, float]]] = {}
    for event in doses.infusions:
        begins, ends = doses.times_of(event), doses.ends_of(event)
        if not is_concrete(jnp.sum(begins) + jnp.sum(ends)):
            continue
        for begin, end in zip(np.asarray(begins).tolist(), np.asarray(ends).tolist()):
            if end <= begin:
                raise ValueError(
                    f"The `duration` of a dose must be positive, but is "
                    f"{end - begin:.6g}. Leave it out for a dose that is given at once."
                )
            spans.setdefault(event.state, []).append((begin, end))
    for infusions in spans.values():
        infusions.sort()
        for (begin, end), (later, _) in zip(infusions, infusions[1:]):
            if later < end * (1 - 1e-12):
                raise ValueError(
                    f"Two infusions into the same state overlap: one from {begin:.6g} "
                    f"to {end:.6g}, and one from {later:.6g} on. Give the second later "
                    "or the first faster, or write them as one."
                )


def check_dose_times(doses: Doses | None, T: float) -> None:
    """Raise an error if a dose, whose time is known, is outside of [0, T]."""
    if doses is None or doses.is_padded:
        return
    for event in doses.events:
        times = doses.times_of(event)
        if not is_concrete(jnp.sum(times)):
            continue
        known = np.asarray(times)
        if np.any(known < 0) or np.all(known > T):
            wrong = known[known < 0][0] if np.any(known < 0) else known[0]
            raise ValueError(
                f"A dose is at the time {wrong:.6g}, outside of the record from 0 to "
                f"{T:.6g}. Times are counted from the end of the history: change the "
                "time, or leave the dose out."
            )
