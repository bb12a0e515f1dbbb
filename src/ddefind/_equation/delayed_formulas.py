"""Definitions at earlier times, `f(t - tau)`, in terms of delayed states.

For f = x * y(t - 1) + t, the formula f(t - tau) is x(t - tau) * y(t - tau - 1) + (t -
tau): states are delayed, the delays of delayed states add up, and t - tau replaces t.
The formulas are not written into each other, because they could become very long.
Instead `f(t - tau)` becomes one more definition, with this text as its name.

Here tau may depend on t and on states, but the delays inside of f are constant: others
would have to be computed from delayed states.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import final

from .expression import (
    Call,
    Delayed,
    Expression,
    Kernel,
    Name,
    Number,
    formula_text,
    is_network_name,
    make_call,
    names_in,
    walk,
)

MAX_DELAY_PARTS = 100
_MAX_DELAYS = 50
_MAX_PARTS = 20_000


@final
class ExpansionError(ValueError):
    """Delayed definitions that give too many or too long formulas."""


@final
@dataclass
class Expansion:
    """Formulas without delayed definitions, and the definitions that they need.

    `steps` are these definitions by name: those of the text, and those that are one
    more for each delay. `delays` are the distinct delays of states and inputs, by their
    texts, and
    `slopes` are the texts of those at which the slope of a state is read."""

    states: tuple[str, ...]
    definitions: Mapping[str, Expression]
    inputs: tuple[str, ...] = ()
    steps: dict[str, Expression] = field(default_factory=dict)
    delays: dict[str, Expression] = field(default_factory=dict)
    slopes: set[str] = field(default_factory=set)
    parts: int = 0

    def add(self, formula: Expression) -> Expression:
        """The formula without delayed definitions."""
        waiting: list[_Read] = []
        result = self._rewritten(formula, None, waiting)
        while waiting:
            read = waiting.pop()
            if read.step not in self.steps:
                body = self.definitions[read.name]
                self.steps[read.step] = self._rewritten(body, read.delay, waiting)
        return result

    def ordered_steps(self) -> dict[str, Expression]:
        """The `steps`, each one after those that it needs."""
        graph = {
            step: [name for name in names_in(formula) if name in self.steps]
            for step, formula in self.steps.items()
        }
        order = TopologicalSorter(graph).static_order()
        return {step: self.steps[step] for step in order}

    def _rewritten(
        self, expression: Expression, delay: Expression | None, waiting: list["_Read"]
    ) -> Expression:
        """The formula at the time t - delay, or at t if `delay` is None.

        The definitions that it reads are added to `waiting`."""
        self._count(1)
        if expression.value is not None:
            return expression
        if isinstance(expression, Call):
            arguments = [
                self._rewritten(argument, delay, waiting)
                for argument in expression.arguments
            ]
            return Call(expression.function, tuple(arguments))
        if isinstance(expression, Delayed):
            own = written_out(expression.delay, self.definitions)
            if delay is not None:
                self._check_is_constant(expression, own)
            delay = own if delay is None else _total(delay, own)
            if expression.slope:
                self.slopes.add(formula_text(delay))
        assert isinstance(expression, (Name, Delayed))
        name = expression.name
        if delay is not None:
            self._count(part_count(delay))
        if name in self.definitions:
            waiting.append(_Read(name, delay))
            return Name(waiting[-1].step)
        if delay is not None and name in (*self.states, *self.inputs):
            slope = isinstance(expression, Delayed) and expression.slope
            return self._delayed_state(name, delay, slope)
        if delay is not None and name == "t":
            return Call("-", (Name("t"), delay))
        return Name(name)

    def _check_is_constant(self, inner: Delayed, delay: Expression) -> None:
        """Check that what stands in a delayed definition can be delayed once more."""
        if isinstance(delay, Kernel):
            kind = "its delay is distributed"
        elif varies(delay, self.states):
            kind = "its delay depends on the time or on a state"
        else:
            return
        raise ExpansionError(
            f"A delayed formula contains {formula_text(inner)}, which cannot be "
            f"delayed once more: {kind}."
        )

    def _delayed_state(self, state: str, delay: Expression, slope: bool) -> Delayed:
        self.delays[formula_text(delay)] = delay
        if len(self.delays) > _MAX_DELAYS:
            raise ExpansionError(
                f"The equations have more than {_MAX_DELAYS} different delays."
            )
        return Delayed(state, delay, slope)

    def _count(self, parts: int) -> None:
        """Check that the formulas, with more `parts`, are not too long."""
        self.parts += parts
        if self.parts > _MAX_PARTS:
            raise ExpansionError(
                f"With its delayed formulas written out this has more than {_MAX_PARTS}"
                " symbols."
            )


@final
@dataclass(frozen=True)
class _Read:
    """A definition that is read at the time t - delay, or at t if `delay` is None."""

    name: str
    delay: Expression | None

    @property
    def step(self) -> str:
        """The name of the definition of what is read: `f`, or `f(t - tau)`."""
        if self.delay is None:
            return self.name
        return formula_text(Delayed(self.name, self.delay))


def varies(delay: Expression, states: tuple[str, ...]) -> bool:
    """Whether a delay, written out, depends on the time or on a state."""
    return any(name == "t" or name in states for name in names_in(delay))


def written_out(delay: Expression, definitions: Mapping[str, Expression]) -> Expression:
    """A delay with the formulas of its definitions in place of their names.

    The caller has to check that the result is not too long."""
    return _folded(_substituted(delay, definitions))


def _substituted(
    delay: Expression, definitions: Mapping[str, Expression]
) -> Expression:
    if isinstance(delay, Name) and delay.name in definitions:
        return _substituted(definitions[delay.name], definitions)
    if isinstance(delay, Kernel):
        numbers = [written_out(each, definitions) for each in delay.arguments]
        return Kernel(delay.distribution, tuple(numbers))
    if isinstance(delay, Call) and is_network_name(delay.function):
        raise ExpansionError("A delay cannot contain a network.")
    if isinstance(delay, Call) and delay.value is None:
        arguments = [_substituted(each, definitions) for each in delay.arguments]
        return make_call(delay.function, *arguments)
    return delay


def _total(first: Expression, second: Expression) -> Expression:
    """The sum of two delays."""
    total = _folded(make_call("+", first, second))
    if part_count(total) > MAX_DELAY_PARTS:
        raise ExpansionError(
            f"The delays add up to a formula of {part_count(total)} symbols; "
            f"{MAX_DELAY_PARTS} are the most."
        )
    if total.value is not None and not math.isfinite(total.value):
        raise ExpansionError("The delays add up to an infinite one.")
    return total


def _folded(delay: Expression) -> Expression:
    """The same delay, as a number if it is constant."""
    return delay if delay.value is None else Number(float(delay.value))


def part_count(expression: Expression) -> int:
    """The number of numbers, names, operators and functions in an expression."""
    return sum(1 for _ in walk(expression))
