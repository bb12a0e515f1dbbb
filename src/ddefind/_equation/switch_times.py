"""The times at which the right-hand side of a text switches.

A condition such as `t > 5`, or `t - tau < 2 * d` inside a delayed formula, changes at
one time if the difference D(t) of its two sides is linear in t: D(t) = D(0) + c t, with
a number c that is not zero. The time is -D(0) / c. It is a formula of parameters, if
D(0) is one. `min`, `max` and `abs` have a kink where D changes its sign.

Conditions on states, or on t in other ways, are not considered.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, final

import jax
import numpy as np

from .._problem.problem import Problem
from .delayed_formulas import varies
from .expression import Call, Delayed, Expression, Name, names_in
from .formula_modules import FormulaProgram

_CONDITIONS = ("<", "<=", ">", ">=")
_KINKS = ("min", "max")
# The pairs of many arguments would be too many.
_MAX_KINK_ARGUMENTS = 6


@final
@dataclass(frozen=True)
class SwitchTimes:
    """The times at which a right-hand side switches, as a function of the problem.

    `differences` computes the D(0), given the parameters, and `slopes` are the c."""

    differences: FormulaProgram
    slopes: tuple[float, ...]

    def __call__(self, problem: Problem) -> jax.Array:
        """The times as a vector."""
        program = self.differences
        parameters = {name: getattr(problem.rhs, name) for name in program.parameters}
        delays = _named_delays(program, problem.tau)
        variables = {**parameters, **delays, "t": np.zeros(())}
        return -program(variables) / np.array(self.slopes)


def _named_delays(program: FormulaProgram, tau: Any) -> dict[str, Any]:
    """The values of the delays that are parameters, by their names."""
    if not program.has_several_delays:
        return {"tau": tau}
    return {
        key: tau[key] if program.is_number(delay) else getattr(tau[key], key)
        for key, delay in program.delays_by_text.items()
        if isinstance(delay, Name) and not varies(delay, program.states)
    }


def switch_times(rhs: FormulaProgram) -> SwitchTimes | tuple[()]:
    """The times at which a right-hand side switches, or () if it never does."""
    linear = _LinearFormulas(rhs)
    found: dict[Expression, float] = {}
    for part in rhs.parts:
        for difference in _differences(part):
            slope = linear.slope(difference)
            if slope is not None and slope < 0 and isinstance(difference, Call):
                # 5 < t and t > 5 are one switch.
                difference, slope = _opposite(difference), -slope
            if slope:
                found[difference] = slope
    if not found:
        return ()
    steps = linear.needed(found)
    used = {name for formula in (*steps.values(), *found) for name in names_in(formula)}
    parameters = tuple(name for name in rhs.parameters if name in used)
    differences = FormulaProgram(
        "switches",
        rhs.states,
        tuple(steps.items()),
        tuple(found),
        parameters,
        rhs.delays,
        rhs.slopes,
    )
    return SwitchTimes(differences, tuple(found.values()))


def _differences(part: Expression) -> Iterator[Expression]:
    """The differences D whose changes of sign are a jump or a kink of a formula."""
    if not isinstance(part, Call):
        return
    arguments = part.arguments
    if part.function in _CONDITIONS:
        yield Call("-", arguments)
    elif part.function in _KINKS and len(arguments) <= _MAX_KINK_ARGUMENTS:
        yield from (Call("-", pair) for pair in combinations(arguments, 2))
    elif part.function == "abs":
        yield arguments[0]


def _opposite(difference: Call) -> Call:
    """The difference with the opposite sign."""
    if difference.function == "-":
        return Call("-", difference.arguments[::-1])
    return Call("neg", (difference,))


@final
class _LinearFormulas:
    """Which formulas of a right-hand side are linear in t, and otherwise constant."""

    def __init__(self, rhs: FormulaProgram):
        self.varying = (*rhs.states, *rhs.inputs)
        self.steps = dict(rhs.steps)
        self.step_slopes: dict[str, float | None] = {}
        for name, formula in rhs.steps:
            self.step_slopes[name] = self.slope(formula)

    def slope(self, formula: Expression) -> float | None:
        """The c of a formula c t + d, or None if it is something else."""
        if formula.value is not None:
            return 0.0
        if isinstance(formula, Call):
            return self._call_slope(formula)
        if isinstance(formula, Delayed):
            return None
        assert isinstance(formula, Name)
        if formula.name == "t":
            return 1.0
        if formula.name in self.step_slopes:
            return self.step_slopes[formula.name]
        return None if formula.name in self.varying else 0.0

    def _call_slope(self, call: Call) -> float | None:
        slopes: list[float] = []
        for argument in call.arguments:
            slope = self.slope(argument)
            if slope is None:
                return None
            slopes.append(slope)
        if not any(slopes):
            return 0.0
        if call.function == "neg":
            return -slopes[0]
        if call.function == "+":
            return slopes[0] + slopes[1]
        if call.function == "-":
            return slopes[0] - slopes[1]
        if call.function == "*":
            left, right = map(self._constant, call.arguments)
            if left is not None:
                return left * slopes[1]
            return None if right is None else slopes[0] * right
        if call.function == "/":
            divisor = self._constant(call.arguments[1])
            return None if not divisor else slopes[0] / divisor
        return None

    def _constant(self, formula: Expression) -> float | None:
        """The value of a formula, if it is a number or the name of one."""
        if isinstance(formula, Name) and formula.name in self.steps:
            return self.steps[formula.name].value
        return formula.value

    def needed(self, formulas: Iterable[Expression]) -> dict[str, Expression]:
        """The definitions that the formulas need, each one after those it needs."""
        names = {name for formula in formulas for name in names_in(formula)}
        for step in reversed(self.steps):
            if step in names:
                names.update(names_in(self.steps[step]))
        return {step: body for step, body in self.steps.items() if step in names}
