"""Delays in formulas, and definitions at earlier times.

`read_at_time`, `read_slope` and `read_distributed` read `x(t - tau)`, `x(t / 2)`,
`x'(t - tau)` and `delay(x, gamma(...))`. A delay is a formula of parameters, of t and
of the states at the time t. If a state is read at a time that is not written as t -
..., as in `x(t / 2)`, its delay is t minus this time.

`Expansion` writes a definition at an earlier time, `f(t - tau)`, in terms of delayed
states. For f = x * y(t - 1) + t, it is x(t - tau) * y(t - tau - 1) + (t - tau): states
are delayed, the delays of delayed states add up, and t - tau replaces t. The formulas
are not written into each other, because they could become very long. Instead `f(t -
tau)` becomes one more definition, with this text as its name. Here tau may depend on t
and on states, but the delays inside of f are constant: others would have to be computed
from delayed states.
"""

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, final

import numpy as np

from .._problem.kernels import KERNELS
from .._util.errors import did_you_mean
from .expression import (
    ATOM_PRECEDENCE,
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
    time_argument,
    walk,
)
from .parser import undelayed_slope_error

if TYPE_CHECKING:
    from .translate_formula import Translation


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

    `steps` are these definitions by name: the definitions of the text, and one more for
    each delay of a definition. `delays` are the distinct delays of states and inputs,
    by their texts, and `slopes` the texts of the delays at which slopes are read."""

    states: tuple[str, ...]
    definitions: Mapping[str, Expression]
    inputs: tuple[str, ...] = ()
    steps: dict[str, Expression] = field(default_factory=dict)
    delays: dict[str, Expression] = field(default_factory=dict)
    slopes: set[str] = field(default_factory=set)
    parts: int = 0

    def add(self, formula: Expression) -> Expression:
        """Return the formula without delayed definitions."""
        waiting: list[_Read] = []
        result = self._rewritten(formula, None, waiting)
        while waiting:
            read = waiting.pop()
            if read.step not in self.steps:
                body = self.definitions[read.name]
                self.steps[read.step] = self._rewritten(body, read.delay, waiting)
        return result

    def ordered_steps(self) -> dict[str, Expression]:
        """Return the `steps`, each one after those that it needs."""
        graph = {
            step: [name for name in names_in(formula) if name in self.steps]
            for step, formula in self.steps.items()
        }
        order = TopologicalSorter(graph).static_order()
        return {step: self.steps[step] for step in order}

    def _rewritten(
        self, expression: Expression, delay: Expression | None, waiting: list["_Read"]
    ) -> Expression:
        """Return the formula at t - delay, or at t; definitions in it become
        `waiting`."""
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
            inner = written_out(expression.delay, self.definitions)
            if delay is not None:
                self._check_is_constant(expression, inner)
            delay = inner if delay is None else _total(delay, inner)
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
            self.delays[formula_text(delay)] = delay
            if len(self.delays) > _MAX_DELAYS:
                raise ExpansionError(
                    f"The equations have more than {_MAX_DELAYS} different delays."
                )
            slope = isinstance(expression, Delayed) and expression.slope
            return Delayed(name, delay, slope)
        if delay is not None and name == "t":
            return Call("-", (Name("t"), delay))
        return Name(name)

    def _check_is_constant(self, inner: Delayed, delay: Expression) -> None:
        """Check that the delay inside of a delayed definition is constant."""
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
    """Return a delay with definitions in place of their names, of any length."""
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
    """Return the sum of two delays."""
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
    """Return the same delay, as a number if it is constant."""
    return delay if delay.value is None else Number(float(delay.value))


def part_count(expression: Expression) -> int:
    """Return the number of numbers, names, operators and functions in an expression."""
    return sum(1 for _ in walk(expression))


# A term of a sum with its sign, 1 or -1.
_Term = tuple[int, ast.expr]
# Attributes of delay objects, which cannot be the names of parameters in them.
_ATTRIBUTES = ("slope", "describe")


def read_at_time(
    translation: "Translation", node: ast.Call, name: str, depth: int
) -> Name | Delayed:
    """Return the formula of `x(t)` or `x(t - tau)`, for a state or a definition x."""
    now = translation.name(ast.Name(name, col_offset=node.col_offset))
    if len(node.args) == 1 and _is_time(node.args[0]):
        return now
    return Delayed(name, _delay(translation, node, name, depth))


def read_slope(
    translation: "Translation", node: ast.Call, name: str, depth: int
) -> Delayed:
    """Return the formula of the slope `x'(t - tau)` of a state x."""
    states = translation.translator.states
    if name not in states:
        hint = did_you_mean(name, states)
        raise translation.error(
            node, f"{name!r} is no state: only states have slopes.{hint}"
        )
    if len(node.args) == 1 and _is_time(node.args[0]):
        raise translation.error(node, undelayed_slope_error(name))
    return Delayed(name, _delay(translation, node, f"{name}'", depth), slope=True)


def _is_time(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "t"


def is_earlier_time(node: ast.Call) -> bool:
    """Whether a call has the form of a delayed state: f(t - ...)."""
    terms = _terms(node.args[0]) if len(node.args) == 1 else []
    return len(terms) > 1 and _is_time(terms[0][1])


def _terms(node: ast.expr) -> list[_Term]:
    """Return the terms of a sum such as t - a + b, or anything else as one term."""
    terms: list[_Term] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        terms.append((1 if isinstance(node.op, ast.Add) else -1, node.right))
        node = node.left
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and terms:
        return [(-1, node.operand), *reversed(terms)]
    return [(1, node), *reversed(terms)]


def _delay(
    translation: "Translation", node: ast.Call, name: str, depth: int
) -> Expression:
    """Return the delay of `x(...)`, where `name` is x, or x' for a slope."""
    argument = node.args[0] if len(node.args) == 1 else None
    if argument is None or not _varies(translation, argument):
        raise _not_a_time(translation, node, name)
    if translation.place != "equation":
        raise translation.error(
            node, f"{translation.where} cannot use delayed states or formulas."
        )
    terms = _terms(argument)
    if len(terms) > MAX_DELAY_PARTS:
        raise _long_delay(translation, argument)
    signs = [sign for sign, term in terms if _is_time(term)]
    rest = [(sign, term) for sign, term in terms if not _is_time(term)]
    if len(signs) == 1 and rest and not any(_varies(translation, e) for _, e in rest):
        if signs[0] < 0 or rest[0][0] > 0:
            first = rest[0][1] if _is_time(terms[0][1]) else argument
            raise translation.error(
                first, f"Only earlier times are known: write {name}(t - ...)."
            )
        delay = _minus(translation, rest, depth)
        return _checked_constant(translation, rest[0][1], delay, name)
    if len(terms) > 1 and _is_time(terms[0][1]) and terms[1][0] < 0:
        delay = _minus(translation, terms[1:], depth)
    else:
        _check_is_time(translation, node, name, terms)
        inside = translation.at("delay")
        delay = make_call("-", Name("t"), inside.expression(argument, depth))
    return _checked_varying(translation, node, delay, name)


def _varies(translation: "Translation", node: ast.expr) -> bool:
    """Whether a node depends on the time or on a state."""
    names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    return any(map(translation.translator.varies, names))


def _minus(translation: "Translation", terms: list[_Term], depth: int) -> Expression:
    """Return the delay a + b - c of the terms - a - b + c."""
    inside = translation.at("delay")
    (_, first), *rest = terms
    delay = inside.expression(first, depth)
    for sign, node in rest:
        term = inside.expression(node, depth)
        delay = make_call("-" if sign > 0 else "+", delay, term)
    return delay


def _check_is_time(
    translation: "Translation", node: ast.Call, name: str, terms: list[_Term]
) -> None:
    """Check that x(...) is meant as a state at a time, and not as a product. The x(1 -
    x / K) of a logistic equation lacks an asterisk. The time x(u - 2) begins with a
    state, or has t in it."""
    names = [part.id for part in ast.walk(node.args[0]) if isinstance(part, ast.Name)]
    uses_time = any(map(translation.translator.uses_time, names))
    is_slope = name.endswith("'")
    if not (is_slope or uses_time or _varies(translation, terms[0][1])):
        raise translation.error(
            node,
            f"To multiply, write {name} * (...). If this is a time, let it begin with "
            f"t or a state: {name}(t - ...).",
        )


def _not_a_time(translation: "Translation", node: ast.Call, name: str) -> Exception:
    if name.endswith("'"):
        return translation.error(node, f"A slope is read as {name}(t - tau).")
    translator = translation.translator
    what = "A state" if name in translator.states else "A formula"
    what = "An input" if name in translator.inputs else what
    return translation.error(
        node,
        f"{what} is read as {name} or {name}(t - tau). To multiply, write "
        f"{name} * (...).",
    )


def _checked_constant(
    translation: "Translation", node: ast.expr, delay: Expression, name: str
) -> Expression:
    """Return a delay, as a number if it is constant, after checks of its value."""
    whole = _checked_formula(translation, node, delay)
    if isinstance(whole, Call) and whole.function == "neg":
        raise translation.error(
            node,
            "A delay must be positive, but this one has a minus sign: write "
            f"{name}(t - {formula_text(whole.arguments[0], ATOM_PRECEDENCE)}).",
        )
    if whole.value is not None and not 0 < whole.value < np.inf:
        raise translation.error(
            node, f"A delay must be positive, but this one is {whole.value:g}."
        )
    if name.endswith("'"):
        _check_attributes(translation, node, whole)
    return delay if delay.value is None else whole


def _checked_varying(
    translation: "Translation", node: ast.Call, delay: Expression, name: str
) -> Expression:
    """Return a delay that depends on time or states, after checks of it."""
    _check_attributes(translation, node, _checked_formula(translation, node, delay))
    time = time_argument(delay)
    if time is not None and not translation.translator.formula_varies(time):
        raise _not_a_time(translation, node, name)  # x(t - t + 3) is x(3).
    return delay


def _checked_formula(
    translation: "Translation", node: ast.expr, formula: Expression
) -> Expression:
    """Return a formula with its definitions written out, after checks of its parts."""
    translator = translation.translator
    if translator.part_count(formula) > MAX_DELAY_PARTS:
        raise _long_delay(translation, node)
    try:
        whole = written_out(formula, translator.formulas)
    except ExpansionError as error:
        raise translation.error(node, str(error)) from None
    for part in walk(whole):
        if isinstance(part, Call):
            translation.finite(node, part)
            translation.check_exponent(node, part)
    return whole


def _check_attributes(
    translation: "Translation", node: ast.expr, whole: Expression
) -> None:
    for name in names_in(whole):
        if name in _ATTRIBUTES and name not in translation.translator.states:
            raise translation.error(
                node, f"In such a delay, {name!r} cannot be a parameter: rename it."
            )


def _long_delay(translation: "Translation", node: ast.expr) -> Exception:
    return translation.error(
        node, f"A delay may have at most {MAX_DELAY_PARTS} symbols, written out."
    )


def read_distributed(translation: "Translation", node: ast.Call, depth: int) -> Delayed:
    """Return the formula of `delay(x, gamma(mean = m, shape = k))`."""
    if len(node.args) != 2:
        hint = " To multiply, write delay * (...)." if len(node.args) == 1 else ""
        first, *others = [kernel.signature() for kernel in KERNELS.values()]
        raise translation.error(
            node,
            f"delay(...) needs a state and a distribution of delays: write delay(x, "
            f"{first}), or with another distribution: {', '.join(others)}.{hint}",
        )
    if translation.place != "equation":
        raise translation.error(
            node, f"{translation.where} cannot use delayed states or formulas."
        )
    first, kernel = node.args
    state = translation.expression(first, depth)
    if not isinstance(state, Name) or state.name not in translation.translator.states:
        raise translation.error(
            first,
            "delay(...) is the mean of a state over the past: write a state here. The "
            "mean of a formula is not known.",
        )
    return Delayed(state.name, _kernel(translation, kernel, depth))


def _kernel(translation: "Translation", node: ast.expr, depth: int) -> Kernel:
    function = node.func if isinstance(node, ast.Call) else None
    if not isinstance(function, ast.Name) or function.id not in KERNELS:
        *others, last = [kernel.signature() for kernel in KERNELS.values()]
        known = f"{', '.join(others)} or {last}"
        raise translation.error(
            node,
            f"A distribution of delays is {known}. For a single delay write "
            "x(t - tau).",
        )
    assert isinstance(node, ast.Call)
    inside, arguments = translation.at("kernel"), []
    for argument in _kernel_arguments(translation, node, function.id):
        formula = inside.expression(argument, depth + 1)
        if translation.translator.is_condition(formula):
            raise translation.error(
                argument, "A number is needed here. A name is given as mean = ..."
            )
        whole = _checked_formula(translation, argument, formula)
        _check_attributes(translation, argument, whole)
        arguments.append(formula if formula.value is None else whole)
    kernel = Kernel(function.id, tuple(arguments))
    _check_kernel(translation, node, kernel)
    return kernel


def _kernel_arguments(
    translation: "Translation", node: ast.Call, distribution: str
) -> list[ast.expr]:
    """Return the two values of a distribution, given by names or in their order."""
    kernel = KERNELS[distribution]
    names, wanted = list(kernel.numbers), kernel.signature()
    given: dict[str, ast.expr] = {}
    has_names = False
    for number, argument in enumerate(node.args):
        name, value = names[min(number, 1)], argument
        if isinstance(argument, ast.NamedExpr):
            name, value, has_names = argument.target.id, argument.value, True
        elif has_names:
            raise translation.error(
                argument, f"Give this value a name, too: {name} = ..."
            )
        if name not in names:
            raise translation.error(argument, f"There is no {name!r} in {wanted}.")
        if name in given and len(node.args) <= 2:
            raise translation.error(argument, f"{name!r} is given a second time.")
        given[name] = value
    if len(node.args) != 2:
        raise translation.error(
            node, f"{wanted} needs two values, but got {len(node.args)}."
        )
    return [given[name] for name in names]


def _check_kernel(translation: "Translation", node: ast.Call, kernel: Kernel) -> None:
    """Check the values of a distribution, as far as they are numbers."""
    formulas = translation.translator.formulas
    values = [written_out(each, formulas).value for each in kernel.arguments]
    known = KERNELS[kernel.distribution].of(
        [np.nan if value is None else float(value) for value in values]
    )
    if known.is_impossible:
        raise translation.error(node, f"{known.rule}.")
