"""The doses of a text: states and parameters by their names."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._problem.doses import Dose, Doses, SetState, as_sequence, make_doses
from .._util.errors import did_you_mean
from .model_lines import ModelLines
from .translate_formula import RESERVED


def read_doses(lines: ModelLines, doses: Any) -> Doses | None:
    """The doses that are given to a text, with NaN for the values of their
    parameters."""
    if doses is None or isinstance(doses, Doses):
        return doses
    items, values = [], {}
    for dose in as_sequence(doses):
        items.append(replace(dose, state=_state_number(lines, dose.state)))
        for value in _quantities(dose):
            if isinstance(value, str):
                _check_name(lines, value)
                values[value] = jnp.asarray(np.nan)
    return make_doses(items, len(lines.states), bool(lines.of("initial")), values)


def _quantities(dose: Dose | SetState) -> tuple[Any, ...]:
    if isinstance(dose, SetState):
        return dose.value, dose.time
    return dose.amount, dose.time, dose.duration


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
        raise ValueError(f"{name!r} has a meaning already: take another name.")
