"""The lines of a model: its equations, histories, definitions and observed quantities.

`read_lines` makes them from text. It finds out what each name means, and checks that
the lines are consistent with each other.
"""

import ast
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import final

from .._util import wording
from .._util.errors import did_you_mean
from .delayed_formulas import Expansion, ExpansionError
from .expression import Delayed, Expression, Name, formula_text, names_in, walk
from .network_names import check_networks
from .parser import (
    EquationError,
    Source,
    Statement,
    StatementKind,
    parse_statements,
    read_source,
)
from .translate_formula import RESERVED, Place, Translator

_LEFT_SIDES = {
    "derivative": "{}' = ",
    "history": "{}(t<=0) = ",
    "initial": "{}(0) = ",
    "definition": "{} = ",
    "value": "",
}

# The places of statements that are neither definitions nor observed quantities.
_PLACES: dict[str, Place] = {
    "derivative": "equation",
    "history": "history",
    "initial": "initial",
}


@final
@dataclass(frozen=True)
class ModelLine:
    """A formula and what it defines: `x' = ...`, `x(t<=0) = ...`, `x(0) = ...` or `f =
    ...`.

    The kind "value" is an observed quantity that is only a name."""

    kind: StatementKind
    name: str
    formula: Expression

    def __str__(self) -> str:
        return _LEFT_SIDES[self.kind].format(self.name) + formula_text(self.formula)


@final
@dataclass(frozen=True)
class ModelLines:
    """The lines of a model and of its observed quantities, and the names of its
    inputs."""

    model: tuple[ModelLine, ...]
    observe: tuple[ModelLine, ...] = ()
    inputs: tuple[str, ...] = ()

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states: every state has an equation."""
        return tuple(line.name for line in self.of("derivative"))

    def of(self, kind: str) -> tuple[ModelLine, ...]:
        """Return the lines of one kind."""
        return tuple(line for line in self.model if line.kind == kind)

    @property
    def definitions(self) -> dict[str, Expression]:
        """The definitions `f = ...` by name. An observed quantity with the name of a
        state is none: in other formulas the name means the state."""
        states = set(self.states)
        return {
            line.name: line.formula
            for line in (*self.model, *self.observe)
            if line.kind == "definition" and line.name not in states
        }

    @property
    def parameters(self) -> set[str]:
        """The names in the formulas that are no states, inputs or definitions."""
        lines = (*self.model, *self.observe)
        parts = [part for line in lines for part in walk(line.formula)]
        delays = [part.delay for part in parts if isinstance(part, Delayed)]
        formulas = (*(line.formula for line in lines), *delays)
        used = {name for formula in formulas for name in names_in(formula)}
        return used - {*self.states, *self.inputs, *RESERVED, *self.definitions}


def joined(lines: tuple[ModelLine, ...]) -> str:
    """Return several lines as one text."""
    return "; ".join(map(str, lines))


def read_lines(
    text: str, observe: str | None, inputs: tuple[str, ...] = ()
) -> ModelLines:
    """Return the lines of a model, from the texts of its equations and observations."""
    source = read_source("text", text)
    statements = parse_statements(source)
    states = _check_names(source, statements)
    _check_inputs(statements, inputs)
    translator = Translator(states, inputs=inputs)
    definitions = [s for s in statements if s.kind == "definition"]
    formulas = {s.at: translator.define(s, "equation") for s in _in_order(definitions)}
    for s in statements:
        if s.kind != "definition":
            formulas[s.at] = translator.formula(s, _PLACES[s.kind])
    _check_expansion(statements, formulas, translator)
    lines = tuple(ModelLine(s.kind, s.name, formulas[s.at]) for s in statements)
    model = ModelLines(lines, inputs=inputs)
    if observe is not None:
        observed = _read_observe(observe, translator, model.parameters)
        model = ModelLines(lines, observed, inputs)
    _check_inputs_used(model)
    check_networks(model.model, model.observe, model.parameters)
    return model


def _check_inputs(statements: list[Statement], inputs: tuple[str, ...]) -> None:
    """Check that an input is not defined by the text as well."""
    for name in inputs:
        if name in RESERVED:
            raise EquationError(f"{name!r} cannot be an input: it has a meaning.")
    for statement in statements:
        if statement.name in inputs:
            raise statement.error(
                f"{statement.name!r} is an input, whose values are given: the text "
                "cannot define it as well."
            )


def _check_inputs_used(model: ModelLines) -> None:
    """Check that each input occurs in a formula."""
    names = {
        part.name
        for line in (*model.model, *model.observe)
        for part in walk(line.formula)
        if isinstance(part, Name | Delayed)
    }
    for name in model.inputs:
        if name not in names:
            raise EquationError(
                f"The input {name!r} occurs in no formula."
                f"{did_you_mean(name, sorted(names))}"
            )


def _check_expansion(
    statements: list[Statement], formulas: dict[int, Expression], translator: Translator
) -> None:
    """Check that the equations are not too long when their delayed definitions are
    written out. `formulas` are the right sides by the places of the statements."""
    expansion = Expansion(translator.states, translator.formulas, translator.inputs)
    for statement in statements:
        if statement.kind == "derivative":
            try:
                expansion.add(formulas[statement.at])
            except ExpansionError as error:
                raise statement.error(str(error)) from None


def _check_names(source: Source, statements: list[Statement]) -> tuple[str, ...]:
    """Check that each name has one meaning, and return the names of the states."""
    states, used = [], set()
    for statement in statements:
        name, kind = statement.name, statement.kind
        if kind == "value":
            raise statement.error(
                "There is no '='. Write an equation, as x' = ..., or a name, as f = ..."
            )
        if name in RESERVED:
            raise statement.error(_taken(name))
        role = kind if kind in ("history", "initial") else "name"
        if (role, name) in used:
            what = f"{name}(0)" if kind == "initial" else repr(name)
            raise statement.error(f"{what} is given a second time.")
        used.add((role, name))
        if kind == "derivative":
            states.append(name)
    if not states:
        raise source.error(
            0, "There is no equation: a line must begin with x' =, for a state x."
        )
    _check_histories(states, statements)
    return tuple(states)


def _taken(name: str) -> str:
    return f"{name!r} already has a meaning: choose another name."


def _check_histories(states: list[str], statements: list[Statement]) -> None:
    """Check that only states have a history or a value at time zero in the text, and
    that either all states have a history or none."""
    for statement in statements:
        name, kind = statement.name, statement.kind
        if kind in ("history", "initial") and name not in states:
            what = "A history" if kind == "history" else "A value at time zero"
            raise statement.error(
                f"{what} for {name!r}, which is no state.{did_you_mean(name, states)}"
            )
    histories = {s.name: s for s in statements if s.kind == "history"}
    if not histories:
        return
    for statement in statements:
        name = statement.name
        if statement.kind == "derivative" and name not in histories:
            raise statement.error(
                f"The history of {name!r} is missing: add {name}(t<=0) = ..., as for "
                f"{next(iter(histories))!r}."
            )


def _in_order(definitions: list[Statement]) -> list[Statement]:
    """Return the definitions, each one after those that it needs."""
    by_name = {statement.name: statement for statement in definitions}
    needed = {
        name: [node.id for node in _names_read(statement.tree) if node.id in by_name]
        for name, statement in by_name.items()
    }
    try:
        return [by_name[name] for name in TopologicalSorter(needed).static_order()]
    except CycleError as error:
        first, *others = error.args[1][::-1]
        path = " needs ".join([first, *others[:5]])
        more = " and so on" if len(others) > 5 else ""
        raise by_name[first].error(
            f"{first!r} is defined by itself: {path}{more}."
        ) from None


def _names_read(tree: ast.expr) -> list[ast.Name]:
    """Return the names in a right side, without the names of distributions and of their
    values, which keep their meaning even if definitions have these names."""
    nodes = list(ast.walk(tree))
    kernels = [
        argument.func
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id == "delay"
        for argument in node.args[1:]
        if isinstance(argument, ast.Call)
    ]
    return [
        node
        for node in nodes
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and not any(node is kernel for kernel in kernels)
    ]


def _read_observe(
    observe: str, translator: Translator, parameters: set[str]
) -> tuple[ModelLine, ...]:
    """Return the lines of the observed quantities."""
    source = read_source("observe", observe, "observe, ")
    statements = parse_statements(source)
    if not statements:
        raise EquationError(
            f"{wording.OBSERVE} is empty: leave it out to measure the states."
        )
    taken = {*parameters, *RESERVED, *translator.definitions, *translator.inputs}
    _check_observed(statements, taken)
    # Observed quantities can use each other's names, except those that are states.
    states = translator.states
    definitions = [
        s for s in statements if s.kind == "definition" and s.name not in states
    ]
    formulas = {s.at: translator.define(s, "observe") for s in _in_order(definitions)}
    result: list[ModelLine] = []
    for statement in statements:
        formula = formulas.get(statement.at)
        if formula is None:
            formula = translator.formula(statement, "observe")
        name, kind = statement.name, statement.kind
        if isinstance(formula, Name) and kind == "value":
            name = formula.name
        elif kind == "value":
            used = {*taken, *states, *names_in(formula)}
            name, kind = "observed" if "y" in used else "y", "definition"
        if any(line.name == name for line in result):
            raise statement.error(f"{name!r} is measured a second time.")
        result.append(ModelLine(kind, name, formula))
    return tuple(result)


def _check_observed(statements: list[Statement], taken: set[str]) -> None:
    """Check the left sides of observed quantities, whose names must not be `taken`."""
    for statement in statements:
        if statement.kind in ("derivative", "history", "initial"):
            raise statement.error("Write name = formula, or a formula alone.")
        if statement.name in taken:
            raise statement.error(_taken(statement.name))
        may_be_unnamed = len(statements) == 1 or isinstance(statement.tree, ast.Name)
        if statement.kind == "value" and not may_be_unnamed:
            raise statement.error("Give each of several formulas a name: y = ...")
