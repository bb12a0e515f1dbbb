"""From Python's syntax trees to formulas: only known functions and names are allowed.

The translation checks everything that does not depend on the syntax: that functions
exist and have the right number of arguments, that only states and definitions are
delayed, and that conditions and numbers are not confused. `delayed_formulas.py` reads
the delays.
"""

import ast
from dataclasses import dataclass, field
from typing import Literal, final

import numpy as np

from .._problem.kernels import KERNELS
from .._util import wording
from .._util.errors import did_you_mean
from .delayed_formulas import (
    is_earlier_time,
    read_at_time,
    read_distributed,
    read_slope,
)
from .expression import (
    CONSTANTS,
    FUNCTIONS,
    Call,
    Delayed,
    Expression,
    Name,
    Number,
    formula_text,
    is_condition,
    is_network_name,
    make_call,
    names_in,
    walk,
)
from .parser import SLOPE_PREFIX, EquationError, Statement

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
Place = Literal["equation", "history", "initial", "delay", "kernel", "observe"]
_PLACES: dict[Place, str] = {
    "history": "A history",
    "initial": "A value at time zero",
    "delay": "A delay",
    "kernel": "A distribution of delays",
    "observe": "An observed quantity",
}


@final
@dataclass(frozen=True)
class Definition:
    """A definition, and what matters to a formula that uses it.

    `state`, `delayed` and `input` are a state, a delayed state and an input that the
    definition depends on, directly or through other definitions; each is None if there
    is none. `uses_time` says whether it depends on t, `condition` whether its value is
    true or false instead of a number. `parts` is the number of symbols in it, with
    other definitions written out."""

    formula: Expression
    state: str | None
    delayed: str | None
    uses_time: bool
    condition: bool
    parts: int
    input: str | None = None


_UNDEFINED = Definition(Number(0.0), None, None, False, False, 1)


@final
@dataclass
class Translator:
    """Translates the statements of one model, and collects its `definitions`."""

    states: tuple[str, ...]
    definitions: dict[str, Definition] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()

    def formula(self, statement: Statement, place: Place) -> Expression:
        """Return the right-hand side of a statement as a formula."""
        return Translation(self, statement, place).expression(statement.tree)

    def define(self, statement: Statement, place: Place) -> Expression:
        """Return the formula of a definition, and keep it for later statements."""
        formula = self.formula(statement, place)
        self.definitions[statement.name] = self._definition(formula)
        return formula

    def definition(self, name: str) -> Definition:
        """Return the definition of a name, or `_UNDEFINED`."""
        return self.definitions.get(name, _UNDEFINED)

    @property
    def formulas(self) -> dict[str, Expression]:
        """The formulas of the definitions, by name."""
        return {name: each.formula for name, each in self.definitions.items()}

    def state_in(self, name: str) -> str | None:
        """Return the state that a name is, or one that its definition depends on."""
        return name if name in self.states else self.definition(name).state

    def input_in(self, name: str) -> str | None:
        """Return the input that a name is, or one that its definition depends on."""
        return name if name in self.inputs else self.definition(name).input

    def uses_time(self, name: str) -> bool:
        """Whether a name is t, or a definition that depends on t."""
        return name == "t" or self.definition(name).uses_time

    def varies(self, name: str) -> bool:
        """Whether a name depends on the time or on a state."""
        return self.state_in(name) is not None or self.uses_time(name)

    def formula_varies(self, formula: Expression) -> bool:
        """Whether a formula without delayed states depends on the time or a state."""
        return any(map(self.varies, names_in(formula)))

    def is_condition(self, formula: Expression) -> bool:
        """Whether the value of a formula is true or false, and not a number."""
        if isinstance(formula, Name | Delayed) and formula.name in self.definitions:
            return self.definitions[formula.name].condition
        return is_condition(formula)

    def part_count(self, formula: Expression) -> int:
        """Return the number of symbols in a formula, definitions written out."""
        definitions = [self.definitions.get(name) for name in names_in(formula)]
        inner = sum(definition.parts for definition in definitions if definition)
        return inner + sum(1 for _ in walk(formula))

    def _definition(self, formula: Expression) -> Definition:
        state = delayed = None
        uses_time = False
        parts = [part for part in walk(formula) if isinstance(part, Name | Delayed)]
        for part in parts:
            its_state = self.state_in(part.name)
            state, uses_time = its_state or state, uses_time | self.uses_time(part.name)
            if isinstance(part, Delayed):
                delayed = formula_text(part) if its_state else delayed
                for name in names_in(part.delay):
                    state = state or self.state_in(name)
                    uses_time |= self.uses_time(name)
            delayed = self.definition(part.name).delayed or delayed
        read = next(filter(None, (self.input_in(part.name) for part in parts)), None)
        is_condition, count = self.is_condition(formula), self.part_count(formula)
        return Definition(formula, state, delayed, uses_time, is_condition, count, read)


@final
@dataclass(frozen=True)
class Translation:
    """The translation of one statement, with one method for each kind of node."""

    translator: Translator
    statement: Statement
    place: Place

    @property
    def where(self) -> str:
        """The place in words, if it is not an equation."""
        return _PLACES[self.place]

    def at(self, place: Place) -> "Translation":
        """Return the translation of a part of the statement in another place."""
        return Translation(self.translator, self.statement, place)

    def error(self, node: ast.expr, message: str) -> EquationError:
        return self.statement.error(message, node)

    def expression(self, node: ast.expr, depth: int = 0) -> Expression:
        """Return the formula of any node; `depth` counts the nodes around it."""
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
        if self.place in ("initial", "kernel"):
            self.check_is_constant(node)
        if self.place == "history" and name in self.translator.states:
            raise self.error(
                node, f"A history cannot use {name!r}: no state is known before it."
            )
        definition = self.translator.definition(name)
        read = self.translator.input_in(name)
        if read and self.place in ("history", "delay", "kernel"):
            needs = "" if read == name else f": {name!r} needs it"
            raise self.error(
                node, f"{self.where} cannot use the input {read!r}{needs}."
            )
        if self.place == "history" and definition.state:
            raise self.error(
                node,
                f"A history cannot use {name!r}: it needs the state "
                f"{definition.state!r}.",
            )
        if definition.delayed and self.place in ("observe", "delay"):
            raise self.error(
                node,
                f"{self.where} can use states at time t only, but {name!r} needs "
                f"{definition.delayed}.",
            )
        return Name(name)

    def check_is_constant(self, node: ast.Name) -> None:
        """Check that a name depends on no state, and not on the time."""
        name = node.id
        definition = self.translator.definition(name)
        needs = None
        if name == "t":
            needs = "the time t"
        elif name in self.translator.states:
            needs = f"the state {name!r}"
        elif definition.state:
            needs = f"{name!r}, which needs the state {definition.state!r}"
        elif definition.uses_time:
            needs = f"{name!r}, which needs the time t"
        if needs:
            raise self.error(
                node,
                f"{self.where} is a formula of numbers and parameters: it "
                f"cannot depend on {needs}.",
            )

    def call(self, node: ast.Call, name: str, depth: int) -> Expression:
        if name.startswith(SLOPE_PREFIX):
            return read_slope(self, node, name.removeprefix(SLOPE_PREFIX), depth)
        translator = self.translator
        known = (*translator.states, *translator.definitions, *translator.inputs)
        is_known = name in known
        if name == "delay" and not (is_known and len(node.args) == 1):
            return read_distributed(self, node, depth)
        if is_known:
            return read_at_time(self, node, name, depth)
        if is_network_name(name):
            return self.network(node, name, depth)
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

    def network(self, node: ast.Call, name: str, depth: int) -> Expression:
        """Return the call of a network: no constant, even of constant arguments."""
        if self.place in ("delay", "kernel", "initial"):
            raise self.error(node, f"{self.where} cannot contain a network.")
        if not node.args:
            raise self.error(node, f"{name}(...) needs at least one value.")
        return Call(name, tuple(self.expression(each, depth) for each in node.args))

    def unknown_function(self, name: str, node: ast.Call) -> str:
        """Return the message for a call of neither a function nor a state."""
        states = self.translator.states
        if is_earlier_time(node):
            known = [*states, *self.translator.inputs, *self.translator.definitions]
            return (
                f"{name!r} is neither a state nor an input nor a formula with a name: "
                f"only these have values at other times.{did_you_mean(name, known)} "
                f"{wording.list_input(name)}"
            )
        if name in KERNELS:
            kernel = KERNELS[name].signature()
            return (
                f"{kernel} is a distribution of delays, which stands in delay(x, "
                f"{kernel}) only. To multiply, write {name} * (...)."
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
        self.check_exponent(node.right, result)
        return self.finite(node, result)

    def unary(self, node: ast.UnaryOp, depth: int) -> Expression:
        if isinstance(node.op, ast.Not):
            return make_call("not", self.condition(node.operand, "not", depth))
        value = self.expression(node.operand, depth)
        return make_call("neg", value) if isinstance(node.op, ast.USub) else value

    def compare(self, node: ast.Compare, depth: int) -> Expression:
        """Return the formula of a comparison: `a < b < c` is `a < b and b < c`."""
        values = [self.expression(v, depth) for v in (node.left, *node.comparators)]
        parts = [
            make_call(_COMPARE[type(op)], *pair)
            for op, *pair in zip(node.ops, values, values[1:])
        ]
        return parts[0] if len(parts) == 1 else make_call("and", *parts)

    def condition(self, node: ast.expr, word: str, depth: int) -> Expression:
        """Return the formula of a node that `word` needs to be true or false."""
        formula = self.expression(node, depth)
        if not self.translator.is_condition(formula):
            raise self.error(
                node, f"{word!r} needs a comparison here, such as x > 0, not a number."
            )
        return formula

    def check_exponent(self, node: ast.expr, call: Call) -> None:
        """Check that a constant exponent is not too large."""
        exponent = call.arguments[-1].value if call.function == "^" else None
        if exponent is not None and abs(exponent) > _MAX_EXPONENT:
            raise self.error(
                node,
                f"The exponent {exponent:g} is too large: at most {_MAX_EXPONENT}.",
            )

    def finite(self, node: ast.expr, result: Call) -> Call:
        """Return the same call, after a check that a constant value is finite."""
        if result.value is not None and not np.isfinite(result.value):
            raise self.error(node, "This is not a finite number.")
        return result
