"""From Python's syntax trees to formulas: only known functions and names are allowed.

The translation checks everything that does not depend on the syntax: that functions
exist and have the right number of arguments, that only states and definitions are
delayed, that delays are formulas of parameters, and that conditions and numbers are not
confused.
"""

import ast
from dataclasses import dataclass, field
from typing import Literal, final

import numpy as np

from .._util.errors import did_you_mean
from .delayed_formulas import MAX_DELAY_PARTS, written_out
from .expression import (
    ATOM_PRECEDENCE,
    CONSTANTS,
    FUNCTIONS,
    Call,
    Delayed,
    Expression,
    Name,
    Number,
    formula_text,
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
Place = Literal["equation", "history", "initial", "delay", "observe"]
_PLACES: dict[Place, str] = {
    "history": "A history",
    "initial": "A value at time zero",
    "delay": "A delay",
    "observe": "What is measured",
}


@final
@dataclass(frozen=True)
class Definition:
    """A definition, and what a formula that uses it must know about it.

    `state` and `delayed` are a state and a delayed state that the definition depends
    on, directly or through other definitions, or None if there is none. `uses_time`
    says whether it depends on t, `condition` whether its value is true or false instead
    of a number. `parts` is the number of symbols in it, with other definitions written
    out."""

    formula: Expression
    state: str | None
    delayed: str | None
    uses_time: bool
    condition: bool
    parts: int


@final
@dataclass
class Translator:
    """Translates the statements of one model, and collects its `definitions`."""

    states: tuple[str, ...]
    definitions: dict[str, Definition] = field(default_factory=dict)

    def formula(self, statement: Statement, place: Place) -> Expression:
        """The right-hand side of a statement as a formula."""
        return _Translation(self, statement, place).expression(statement.tree)

    def define(self, statement: Statement, place: Place) -> Expression:
        """As `formula`, for a definition that later statements can use."""
        formula = self.formula(statement, place)
        self.definitions[statement.name] = self._definition(formula)
        return formula

    @property
    def formulas(self) -> dict[str, Expression]:
        """The formulas of the definitions, by name."""
        return {name: each.formula for name, each in self.definitions.items()}

    def is_condition(self, formula: Expression) -> bool:
        """Whether the value of a formula is true or false, and not a number."""
        if isinstance(formula, Name | Delayed) and formula.name in self.definitions:
            return self.definitions[formula.name].condition
        return is_condition(formula)

    def part_count(self, formula: Expression) -> int:
        """The number of symbols in a formula, with its definitions written out."""
        names = [part.name for part in walk(formula) if isinstance(part, Name)]
        inner = [self.definitions[n].parts for n in names if n in self.definitions]
        return sum(inner, sum(1 for _ in walk(formula)))

    def _definition(self, formula: Expression) -> Definition:
        state = delayed = None
        uses_time = False
        for part in walk(formula):
            if not isinstance(part, Name | Delayed):
                continue
            inner = self.definitions.get(part.name)
            own_state = inner.state if inner else None
            if part.name in self.states:
                own_state = part.name
            state = own_state or state
            if isinstance(part, Delayed) and own_state:
                delayed = formula_text(part)
            delayed = (inner and inner.delayed) or delayed
            uses_time |= part.name == "t" or (inner is not None and inner.uses_time)
        condition, parts = self.is_condition(formula), self.part_count(formula)
        return Definition(formula, state, delayed, uses_time, condition, parts)


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
        if self.place in ("initial", "delay"):
            self.check_is_constant(node)
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
                f"{definition.delayed}.",
            )
        return Name(name)

    def check_is_constant(self, node: ast.Name) -> None:
        """Check that a name depends on no state, and not on the time."""
        name = node.id
        definition = self.translator.definitions.get(name)
        needs = None
        if name == "t":
            needs = "the time t"
        elif name in self.translator.states:
            needs = f"the state {name!r}"
        elif definition and definition.state:
            needs = f"{name!r}, which needs the state {definition.state!r}"
        elif definition and definition.uses_time:
            needs = f"{name!r}, which needs the time t"
        if needs:
            raise self.error(
                node,
                f"{_PLACES[self.place]} is a formula of numbers and parameters: it "
                f"cannot depend on {needs}.",
            )

    def call(self, node: ast.Call, name: str, depth: int) -> Expression:
        if name in self.translator.states or name in self.translator.definitions:
            return self.at_time(node, name, depth)
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

    def at_time(self, node: ast.Call, name: str, depth: int) -> Expression:
        """The formula of `x(t)` or `x(t - tau)`, for a state or a definition x."""
        now = self.name(ast.Name(name, col_offset=node.col_offset))
        time = node.args[0] if len(node.args) == 1 else None
        if isinstance(time, ast.Name) and time.id == "t":
            return now
        terms = _delay_terms(time)
        if not terms:
            what = "state" if name in self.translator.states else "formula"
            raise self.error(
                node,
                f"A {what} is read as {name} or {name}(t - tau). To multiply, write "
                f"{name} * (...).",
            )
        if self.place != "equation":
            what = _PLACES[self.place]
            raise self.error(node, f"{what} cannot use delayed states or formulas.")
        return Delayed(name, self.delay(terms, name, depth))

    def delay(
        self, terms: list[tuple[ast.operator, ast.expr]], name: str, depth: int
    ) -> Expression:
        """The delay a + b - c of the time t - a - b + c, given by its terms."""
        (operator, first), *rest = terms
        if isinstance(operator, ast.Add):
            raise self.error(
                first, f"Only earlier times are known: write {name}(t - ...)."
            )
        if len(terms) > MAX_DELAY_PARTS:
            raise self.long_delay(first)
        inside = _Translation(self.translator, self.statement, "delay")
        delay = inside.expression(first, depth)
        for operator, node in rest:
            sign = "+" if isinstance(operator, ast.Sub) else "-"
            delay = make_call(sign, delay, inside.expression(node, depth))
        return self.checked_delay(first, delay, name)

    def checked_delay(self, node: ast.expr, delay: Expression, name: str) -> Expression:
        """The same delay, as a number if it is constant, after checks of its value."""
        if self.translator.part_count(delay) > MAX_DELAY_PARTS:
            raise self.long_delay(node)
        whole = written_out(delay, self.translator.formulas)
        for part in walk(whole):
            if isinstance(part, Call):
                self.finite(node, part)
                self.check_exponent(node, part)
        if isinstance(whole, Call) and whole.function == "neg":
            raise self.error(
                node,
                "A delay must be positive, but this one has a minus sign: write "
                f"{name}(t - {formula_text(whole.arguments[0], ATOM_PRECEDENCE)}).",
            )
        if whole.value is not None and not 0 < whole.value < np.inf:
            raise self.error(
                node, f"A delay must be positive, but this one is {whole.value:g}."
            )
        return delay if delay.value is None else whole

    def long_delay(self, node: ast.expr) -> EquationError:
        return self.error(
            node, f"A delay may have at most {MAX_DELAY_PARTS} symbols, written out."
        )

    def unknown_function(self, name: str, node: ast.Call) -> str:
        """The message for a call of what is neither a function nor a state."""
        states = self.translator.states
        if len(node.args) == 1 and _delay_terms(node.args[0]):
            known = [*states, *self.translator.definitions]
            return (
                f"{name!r} is neither a state nor a formula with a name: only these "
                f"have values at other times.{did_you_mean(name, known)}"
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

    def check_exponent(self, node: ast.expr, call: Call) -> None:
        """Check that a constant exponent is not too large."""
        exponent = call.arguments[-1].value if call.function == "^" else None
        if exponent is not None and abs(exponent) > _MAX_EXPONENT:
            raise self.error(
                node,
                f"The exponent {exponent:g} is too large: at most {_MAX_EXPONENT}.",
            )

    def finite(self, node: ast.expr, result: Call) -> Call:
        """The same call, after a check that its value, if constant, is finite."""
        if result.value is not None and not np.isfinite(result.value):
            raise self.error(node, "This is not a finite number.")
        return result


def _delay_terms(node: ast.expr | None) -> list[tuple[ast.operator, ast.expr]]:
    """The terms a, b, c of a time t - a - b + c, each with the operator before it.

    There are none if the node is something else."""
    terms = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        terms.append((node.op, node.right))
        node = node.left
    is_time = isinstance(node, ast.Name) and node.id == "t"
    return terms[::-1] if is_time else []
