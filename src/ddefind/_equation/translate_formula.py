"""From Python's syntax trees to formulas: only known functions and names are allowed.

The translation checks everything that does not depend on the syntax: that functions
exist and have the right number of arguments, that only states are delayed, that there
is only one delay, and that conditions and numbers are not confused.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, final

import numpy as np

from .._util.errors import did_you_mean
from .expression import (
    CONSTANTS,
    FUNCTIONS,
    Call,
    Delayed,
    Expression,
    Name,
    Number,
    is_condition,
    make_call,
    walk,
)
from .parser import EquationError, Statement

_MAX_DEPTH = 100
_MAX_EXPONENT = 1000
RESERVED = ("t", "tau", *CONSTANTS, *FUNCTIONS)
_SYNONYMS = {"ln": "log"}
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "^"}
_COMPARE = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}

# Where a formula stands, which decides about the names that it can use.
Place = Literal["equation", "history", "observe"]


@final
@dataclass(frozen=True)
class Definition:
    """What a formula that uses a definition must know about it.

    `state` and `delayed` are a state and a delayed state that the definition depends
    on, directly or through other definitions, or None if there is none. `condition`
    says whether its value is true or false instead of a number."""

    state: str | None
    delayed: str | None
    condition: bool


@final
@dataclass
class Translator:
    """Translates the statements of one model, one after the other.

    It collects the `definitions`, and checks that all statements have the same delay:
    `delay` is empty until a delayed state is read. Then its only element is the delay,
    None for `tau`."""

    states: tuple[str, ...]
    definitions: dict[str, Definition] = field(default_factory=dict)
    delay: list[float | None] = field(default_factory=list)

    def formula(self, statement: Statement, place: Place) -> Expression:
        """The right-hand side of a statement as a formula."""
        return _Translation(self, statement, place).expression(statement.tree)

    def define(self, statement: Statement, place: Place) -> Expression:
        """As `formula`, for a definition that later statements can use."""
        formula = self.formula(statement, place)
        state, delayed = _dependencies(formula, self.states, self.definitions)
        condition = self.is_condition(formula)
        self.definitions[statement.name] = Definition(state, delayed, condition)
        return formula

    def is_condition(self, formula: Expression) -> bool:
        """Whether the value of a formula is true or false, and not a number."""
        if isinstance(formula, Name) and formula.name in self.definitions:
            return self.definitions[formula.name].condition
        return is_condition(formula)


def _dependencies(
    formula: Expression,
    states: tuple[str, ...],
    definitions: Mapping[str, Definition],
) -> tuple[str | None, str | None]:
    """A state and a delayed state that a formula depends on, None if there is none."""
    state = delayed = None
    for part in walk(formula):
        if isinstance(part, Delayed):
            state = delayed = part.state
        elif isinstance(part, Name) and part.name in states:
            state = part.name
        elif isinstance(part, Name) and part.name in definitions:
            state = definitions[part.name].state or state
            delayed = definitions[part.name].delayed or delayed
    return state, delayed


@final
@dataclass(frozen=True)
class _Translation:
    """The translation of one statement, with one method for each kind of node."""

    translator: Translator
    statement: Statement
    place: Place

    def error(self, node: ast.expr, message: str) -> EquationError:
        return self.statement.error(message, node)

    def expression(self, node: ast.expr, depth: int = 0) -> Expression:
        """The formula of any node; `depth` counts the nodes around it."""
        if depth > _MAX_DEPTH:
            raise self.error(
                node,
                f"More than {_MAX_DEPTH} operations in each other. Give parts names of "
                "their own, as `f = ...`.",
            )
        depth += 1
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return Number(float(node.value))
        if isinstance(node, ast.Name):
            return self.name(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self.call(node, node.func.id, depth)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return self.binary(node, depth)
        if isinstance(node, ast.UnaryOp):
            return self.unary(node, depth)
        if isinstance(node, ast.Compare):
            return self.compare(node, depth)
        if isinstance(node, ast.BoolOp):
            word = "and" if isinstance(node.op, ast.And) else "or"
            parts = [self.condition(value, word, depth) for value in node.values]
            return make_call(word, *parts)
        raise self.error(node, "This cannot stand in an equation.")

    def name(self, node: ast.Name) -> Name:
        name = node.id
        if name in FUNCTIONS:
            raise self.error(node, f"{name!r} is a function: write {name}(...).")
        if self.place == "history" and name in self.translator.states:
            raise self.error(
                node, f"A history cannot use {name!r}: no state is known before it."
            )
        definition = self.translator.definitions.get(name)
        if definition and self.place == "history" and definition.state:
            raise self.error(
                node,
                f"A history cannot use {name!r}: it needs the state "
                f"{definition.state!r}.",
            )
        if definition and self.place == "observe" and definition.delayed:
            raise self.error(
                node,
                f"What is measured can use states at time t only, but {name!r} needs "
                f"{definition.delayed}(t - tau).",
            )
        return Name(name)

    def call(self, node: ast.Call, name: str, depth: int) -> Expression:
        if name in self.translator.states:
            return self.state_at(node, name, depth)
        if name not in FUNCTIONS:
            raise self.error(node, self.unknown_function(name, node))
        _, least, most = FUNCTIONS[name]
        count = len(node.args)
        if count < least or (most is not None and count > most):
            wanted = "one value" if most == 1 else f"{least} values"
            wanted = wanted if most else f"at least {wanted}"
            raise self.error(node, f"{name}(...) needs {wanted}, but got {count}.")
        first, *rest = node.args
        if name == "where":
            parts = [self.condition(first, "where", depth)]
        else:
            parts = [self.expression(first, depth)]
        parts += [self.expression(argument, depth) for argument in rest]
        return self.finite(node, make_call(name, *parts))

    def state_at(self, node: ast.Call, state: str, depth: int) -> Expression:
        """The formula of `x(t)` or `x(t - tau)`, for a state x."""
        time = node.args[0] if len(node.args) == 1 else None
        if isinstance(time, ast.Name) and time.id == "t":
            return self.name(ast.Name(state, col_offset=node.col_offset))
        delay_node = _delay_node(time)
        if delay_node is None:
            raise self.error(
                node,
                f"A state is read as {state} or {state}(t - tau). To multiply, write "
                f"{state} * (...).",
            )
        if self.place != "equation":
            what = {"history": "A history", "observe": "What is measured"}[self.place]
            raise self.error(node, f"{what} cannot use delayed states.")
        delay = self.read_delay(delay_node, state, depth)
        if self.translator.delay and self.translator.delay[0] != delay:
            raise self.error(delay_node, "Another delay than before: one is supported.")
        self.translator.delay[:] = [delay]
        return Delayed(state, delay)

    def read_delay(self, node: ast.expr, state: str, depth: int) -> float | None:
        """The delay, if it is a number, or None for `tau`."""
        delay = self.expression(node, depth)
        if delay == Name("tau"):
            return None
        if delay.value is None:
            raise self.error(
                node, f"One delay is supported, called tau: write {state}(t - tau)."
            )
        if not delay.value > 0:
            raise self.error(node, "A delay must be positive.")
        return float(delay.value)

    def unknown_function(self, name: str, node: ast.Call) -> str:
        """The message for a call of what is neither a function nor a state."""
        states = self.translator.states
        is_delayed = len(node.args) == 1 and _delay_node(node.args[0])
        if is_delayed and name in self.translator.definitions:
            return (
                f"{name!r} is the name of a formula: it has no values at other times. "
                "Write the formula again, with delayed states."
            )
        if is_delayed:
            return (
                f"{name!r} is no state: only states, those with an equation, can be "
                f"delayed.{did_you_mean(name, states)}"
            )
        if name in _SYNONYMS:
            return f"There is no function {name!r}. Did you mean {_SYNONYMS[name]!r}?"
        hint = did_you_mean(name, FUNCTIONS)
        if "Did you mean" not in hint:
            hint += f" To multiply, write {name} * (...)."
        return f"There is no function {name!r}.{hint}"

    def binary(self, node: ast.BinOp, depth: int) -> Expression:
        left = self.expression(node.left, depth)
        right = self.expression(node.right, depth)
        result = make_call(_BINARY[type(node.op)], left, right)
        exponent = right.value if result.function == "^" else None
        if exponent is not None and abs(exponent) > _MAX_EXPONENT:
            raise self.error(
                node.right,
                f"The exponent {exponent:g} is too large: at most {_MAX_EXPONENT}.",
            )
        return self.finite(node, result)

    def unary(self, node: ast.UnaryOp, depth: int) -> Expression:
        if isinstance(node.op, ast.Not):
            return make_call("not", self.condition(node.operand, "not", depth))
        value = self.expression(node.operand, depth)
        return make_call("neg", value) if isinstance(node.op, ast.USub) else value

    def compare(self, node: ast.Compare, depth: int) -> Expression:
        """`a < b < c` is `a < b and b < c`."""
        values = [self.expression(v, depth) for v in (node.left, *node.comparators)]
        parts = [
            make_call(_COMPARE[type(op)], *pair)
            for op, *pair in zip(node.ops, values, values[1:])
        ]
        return parts[0] if len(parts) == 1 else make_call("and", *parts)

    def condition(self, node: ast.expr, word: str, depth: int) -> Expression:
        """The formula of a node that must be true or false; `word` is what needs it."""
        formula = self.expression(node, depth)
        if not self.translator.is_condition(formula):
            raise self.error(
                node, f"{word!r} needs a comparison here, such as x > 0, not a number."
            )
        return formula

    def finite(self, node: ast.expr, result: Call) -> Call:
        """The same call, after a check that its value, if constant, is finite."""
        if result.value is not None and not np.isfinite(result.value):
            raise self.error(node, "This is not a finite number.")
        return result


def _delay_node(node: ast.expr | None) -> ast.expr | None:
    """The node of the delay in `t - delay`, None if the node is something else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        if isinstance(node.left, ast.Name) and node.left.id == "t":
            return node.right
    return None
