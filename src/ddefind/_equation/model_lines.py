"""The lines of a model: which names are states, definitions or histories, and the
formulas for them, checked together."""

import ast
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import final

from .._util.errors import did_you_mean
from .expression import Expression, Name, names_in, show
from .parser import (
    EquationError,
    Source,
    Statement,
    StatementKind,
    read_source,
    statements,
)
from .translate_formula import RESERVED, Translator

_LEFT = {
    "slope": "{}' = ",
    "history": "{}(t<=0) = ",
    "definition": "{} = ",
    "value": "",
}


@final
@dataclass(frozen=True)
class ModelLine:
    """A formula and what it is for: `x' = ...`, `x(t<=0) = ...`, `f = ...`; a value is
    a name alone, of something measured."""

    kind: StatementKind
    name: str
    formula: Expression

    def __str__(self) -> str:
        return _LEFT[self.kind].format(self.name) + show(self.formula)


@final
@dataclass(frozen=True)
class ModelLines:
    """The lines of a text in their order, and those of what is measured."""

    model: tuple[ModelLine, ...]
    observe: tuple[ModelLine, ...] = ()

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(line.name for line in self.of("slope"))

    def of(self, kind: str) -> tuple[ModelLine, ...]:
        return tuple(line for line in self.model if line.kind == kind)

    @property
    def definitions(self) -> dict[str, Expression]:
        """The formulas that have names. A state's name still means the state, where it
        names a measured quantity."""
        states = set(self.states)
        return {
            line.name: line.formula
            for line in (*self.model, *self.observe)
            if line.kind == "definition" and line.name not in states
        }

    @property
    def parameters(self) -> set[str]:
        """The names in the formulas that are neither states nor defined."""
        lines = (*self.model, *self.observe)
        used = {name for line in lines for name in names_in(line.formula)}
        return used - {*self.states, *RESERVED, *self.definitions}


def read_lines(text: str, observe: str | None) -> ModelLines:
    """A text and the text of what is measured, checked."""
    source = read_source("text", text)
    found = statements(source)
    states = _check_names(source, found)
    names = Translator(states)
    definitions = [s for s in found if s.kind == "definition"]
    formulas = {
        statement.at: names.define(statement, "equation")
        for statement in _in_order(definitions)
    }
    for statement in found:
        if statement.kind != "definition":
            place = "history" if statement.kind == "history" else "equation"
            formulas[statement.at] = names.formula(statement, place)
    lines = tuple(ModelLine(s.kind, s.name, formulas[s.at]) for s in found)
    model = ModelLines(lines)
    if observe is None:
        return model
    return ModelLines(lines, _read_observe(observe, names, model.parameters))


def _check_names(source: Source, found: list[Statement]) -> tuple[str, ...]:
    """The states; each name has one meaning."""
    states, seen = [], {}
    for statement in found:
        name, kind = statement.name, statement.kind
        if kind == "value":
            raise statement.error(
                "There is no '='. Write an equation, as x' = ..., or a name, as f = ..."
            )
        if name in RESERVED:
            raise statement.error(f"{name!r} has a meaning already: take another name.")
        role = "history" if kind == "history" else "name"
        if (role, name) in seen:
            raise statement.error(f"{name!r} is given a second time.")
        seen[role, name] = statement
        if kind == "slope":
            states.append(name)
    if not states:
        raise source.error(
            0, "There is no equation: a line must begin with x' =, for a state x."
        )
    _check_histories(states, found)
    return tuple(states)


def _check_histories(states: list[str], found: list[Statement]) -> None:
    histories = {s.name: s for s in found if s.kind == "history"}
    for name, statement in histories.items():
        if name not in states:
            raise statement.error(
                f"A history for {name!r}, which is no state."
                f"{did_you_mean(name, states)}"
            )
    for statement in found:
        if histories and statement.kind == "slope" and statement.name not in histories:
            name = statement.name
            raise statement.error(
                f"The history of {name!r} is missing: add {name}(t<=0) = ..., as for "
                f"{next(iter(histories))!r}."
            )


def _in_order(definitions: list[Statement]) -> list[Statement]:
    """Definitions, each after those that it needs."""
    by_name = {statement.name: statement for statement in definitions}
    needed = {
        name: [
            node.id
            for node in ast.walk(statement.tree)
            if isinstance(node, ast.Name) and node.id in by_name
        ]
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


def _read_observe(
    observe: str, names: Translator, parameters: set[str]
) -> tuple[ModelLine, ...]:
    source = read_source("observe", observe, "observe, ")
    found = statements(source)
    if not found:
        raise EquationError("`observe` is empty: leave it out to measure the states.")
    taken = {*parameters, *RESERVED, *names.definitions}
    _check_observed(found, taken)
    # A name for what is measured can be used by the others, unless it is a state's.
    new = [s for s in found if s.kind == "definition" and s.name not in names.states]
    formulas = {s.at: names.define(s, "observe") for s in _in_order(new)}
    result: list[ModelLine] = []
    for statement in found:
        formula = formulas.get(statement.at)
        if formula is None:
            formula = names.formula(statement, "observe")
        name, kind = statement.name, statement.kind
        if isinstance(formula, Name) and kind == "value":
            name = formula.name
        elif kind == "value":
            used = {*taken, *names.states, *names_in(formula)}
            name, kind = "observed" if "y" in used else "y", "definition"
        if any(line.name == name for line in result):
            raise statement.error(f"{name!r} is measured a second time.")
        result.append(ModelLine(kind, name, formula))
    return tuple(result)


def _check_observed(found: list[Statement], taken: set[str]) -> None:
    for statement in found:
        if statement.kind in ("slope", "history"):
            raise statement.error("Write name = formula, or a formula alone.")
        if statement.name in taken:
            raise statement.error(
                f"{statement.name!r} has a meaning already: take another name."
            )
        alone = len(found) == 1 or isinstance(statement.tree, ast.Name)
        if statement.kind == "value" and not alone:
            raise statement.error("Give each of several formulas a name: y = ...")
