"""The doses and inputs that are given to a text.

In a dose, states and parameters are named. An input is an `Input`, which is a table, or
a formula of t, as `"1 + sin(t)"`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._problem.doses import Doses, SetState, as_sequence, make_doses
from .._problem.inputs import AbstractInput, is_input
from .._problem.problem import Problem
from .._util import wording
from .._util.errors import did_you_mean, shown
from .expression import (
    Expression,
    as_number,
    evaluate_formula,
    formula_text,
    names_in,
    networks_called,
)
from .formula_modules import FormulaProgram, switch_times
from .model_lines import ModelLines
from .parser import EquationError, parse_statements, read_source
from .translate_formula import RESERVED, Translator


def read_doses(lines: ModelLines, doses: Any) -> Doses | None:
    """Return the doses of a text, with NaN for the values of their parameters."""
    if doses is None or isinstance(doses, Doses):
        return doses
    items, values = [], {}
    for dose in as_sequence(doses):
        items.append(replace(dose, state=_state_number(lines, dose.state)))
        if isinstance(dose, SetState):
            quantities = (dose.value, dose.time)
        else:
            quantities = (dose.amount, dose.time, dose.duration)
        for value in quantities:
            if isinstance(value, str):
                _check_name(lines, value)
                values[value] = jnp.asarray(np.nan)
    return make_doses(items, len(lines.states), bool(lines.of("initial")), values)


def _state_number(lines: ModelLines, state: int | str) -> int:
    if isinstance(state, str) and state in lines.states:
        return lines.states.index(state)
    hint = did_you_mean(str(state), lines.states)
    raise ValueError(f"A dose is for {state!r}, which is no state of the text.{hint}")


def _check_name(lines: ModelLines, name: str) -> None:
    is_taken = name in (*lines.states, *lines.inputs, *lines.definitions)
    if not name.isidentifier() or name.startswith("_") or is_taken:
        raise ValueError(
            f"A dose has the name {name!r} in place of a number. It must be the name "
            "of a parameter, as 'amount'."
        )
    if name in RESERVED and name != "tau":
        raise ValueError(f"{name!r} already has a meaning: choose another name.")


@final
class NotGiven(AbstractInput):
    """An input whose values are not given yet."""

    jump: ClassVar[int] = 0

    @property
    def knots(self):
        return np.zeros(0)

    def __call__(self, t):
        return jnp.zeros_like(t)

    def lacking(self, first, last):
        return None


@final
class FormulaInput(AbstractInput):
    """An input that is a formula of t. Its `knots` are where a condition changes."""

    formula: Expression = eqx.field(static=True)
    times: np.ndarray
    jump: ClassVar[int] = 0

    @property
    def knots(self):
        return self.times

    def __call__(self, t):
        value = as_number(evaluate_formula(self.formula, {"t": jnp.asarray(t)}))
        return jnp.asarray(value, jnp.result_type(float))

    def lacking(self, first, last):
        return None

    @property
    def text(self) -> str:
        """The formula as a text."""
        return formula_text(self.formula)


def input_names(inputs: Any) -> tuple[str, ...]:
    """Return the argument `inputs` of `equation` as a tuple of names."""
    names = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    for name in names:
        if not isinstance(name, str) or not (name.isidentifier() and name[0] != "_"):
            raise ValueError(
                f'`inputs` are names, as inputs=("u",), but one is {shown(name)}.'
            )
        if names.count(name) > 1:
            raise ValueError(f"The input {name!r} is listed twice.")
    return names


def read_inputs(lines: ModelLines, inputs: Any) -> dict[str, AbstractInput]:
    """Return the inputs that are given by name, each as a function of time."""
    if not isinstance(inputs, Mapping):
        raise TypeError(
            '`inputs` maps names to inputs, as {"u": dd.Input(t, values)}, but got '
            f"{shown(inputs)}."
        )
    result = {}
    for name, value in inputs.items():
        if name not in lines.inputs:
            raise ValueError(_not_listed(lines, name))
        if isinstance(value, str):
            value = _read_formula(name, value)
        if not is_input(value):
            raise TypeError(
                f"The input {name!r} must be a `dd.Input(t, values)` or a formula of t "
                f"as a text, but got {shown(value)}."
            )
        result[name] = value
    return result


def _not_listed(lines: ModelLines, name: Any) -> str:
    listed = ", ".join(map(repr, lines.inputs)) or "none"
    if name in lines.parameters:
        return (
            f"{name!r} is a parameter of the text, and no input (it lists {listed}). "
            f"{wording.list_input(name)}"
        )
    hint = did_you_mean(str(name), lines.inputs)
    return f"The text lists no input {name!r}: its inputs are {listed}.{hint}"


def _read_formula(name: str, text: str) -> FormulaInput:
    """Return an input that is given as the text of a formula of t."""
    source = read_source(f"inputs[{name!r}]", text, f"input {name}, ")
    statements = parse_statements(source)
    if len(statements) != 1 or statements[0].kind != "value":
        raise EquationError(
            f"The input {name!r} must be one formula of t, as '1 + sin(t)', but got "
            f"{text!r}."
        )
    formula = Translator(()).formula(statements[0], "equation")
    if networks_called(formula):
        raise statements[0].error(
            f"The input {name!r} is known, but has a network. Write the network in the "
            "equations."
        )
    for other in names_in(formula):
        if other not in ("t", "pi"):
            raise statements[0].error(
                f"The input {name!r} is a formula of numbers and t, but has {other!r}. "
                f"For a formula with parameters write a line {name} = ... in the text."
            )
    switches: Any = switch_times(FormulaProgram("history", (), (), (formula,), ()))
    if switches == ():
        return FormulaInput(formula, np.zeros(0))
    differences = [
        as_number(evaluate_formula(difference, {"t": 0.0}))
        for difference in switches.differences.outputs
    ]
    times = np.sort(-np.array(differences, float) / np.array(switches.slopes))
    return FormulaInput(formula, times)


def check_all_given(names: Sequence[str], given: Mapping[str, Any]) -> None:
    """Raise an error unless every input is given."""
    missing = [name for name in names if name not in given]
    if missing:
        listed = ", ".join(map(repr, missing))
        raise ValueError(
            f"The text lists the input{'s' if missing[1:] else ''} {listed}, but no "
            f"values are given. Give them {wording.input_values(missing[0])}."
        )


def given_inputs(problem: Problem, names: Sequence[str]) -> dict[str, AbstractInput]:
    """Return the inputs of a problem that was made from a text."""
    parts = (problem.rhs, problem.initial, problem.observe)
    return {
        name: getattr(part, name)
        for part in parts
        for name in names
        if is_input(getattr(part, name, None))
    }
