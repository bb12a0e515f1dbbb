"""Inputs and doses in saved files: as tables, and as texts where they are formulas."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._equation.equation import Equation
from .._equation.given_inputs import FormulaInput
from .._problem.doses import Doses, Event, Quantity
from .._problem.inputs import AbstractInput, Input
from .._util.errors import ResultError


def describe_inputs(inputs: Mapping[str, AbstractInput]) -> dict[str, Any] | None:
    """The inputs by name; None if one is the user's code."""
    found: dict[str, Any] = {}
    for name, each in inputs.items():
        if isinstance(each, FormulaInput):
            found[name] = {"kind": "formula", "t": [], "values": [], "text": each.text}
        elif isinstance(each, Input):
            t, values = np.asarray(each.t).tolist(), np.asarray(each.values).tolist()
            found[name] = {"kind": each.kind, "t": t, "values": values, "text": ""}
        else:
            return None
    return found


def describe_doses(doses: Doses | None) -> list[dict[str, Any]]:
    """The events, with the names of their parameters."""
    return [
        {
            "state": event.state,
            "is_set": event.is_set,
            "times": _describe_quantity(event.times),
            "amounts": _describe_quantity(event.amounts),
            "duration": _describe_quantity(event.duration),
        }
        for event in (doses.events if doses is not None else ())
    ]


def _describe_quantity(quantity: Quantity | None) -> dict[str, Any] | None:
    if quantity is None:
        return None
    return {"numbers": np.asarray(quantity.numbers).tolist(), "name": quantity.name}


def with_driving(model: Equation, described: Mapping[str, Any]) -> Equation:
    """The model with its inputs and doses from a file."""
    given: dict[str, Any] = {}
    for name, each in described["inputs"].items():
        is_formula = each["kind"] == "formula"
        given[name] = (
            each["text"]
            if is_formula
            else Input(each["t"], each["values"], each["kind"])
        )
    try:
        model = model.with_inputs(given)
    except ValueError as error:
        raise ResultError(f"`problem.inputs`: {error}") from None
    events = [_event(model, each) for each in described["doses"]]
    if not events:
        return model
    names = {
        quantity.name
        for event in events
        for quantity in (event.times, event.amounts, event.duration)
        if quantity is not None and quantity.name is not None
    }
    values = {name: jnp.asarray(np.nan) for name in sorted(names)}
    has_initial = bool(model.lines.of("initial"))
    doses = Doses(values, tuple(events), len(model.states), has_initial)
    return model.with_doses(doses)


def _event(model: Equation, described: Mapping[str, Any]) -> Event:
    if described["state"] >= len(model.states):
        raise ResultError(
            "`problem.doses` has a state that the equation does not have."
        )
    parts = [described[name] for name in ("times", "amounts", "duration")]
    times, amounts, duration = (
        None if part is None else Quantity(part["numbers"], part["name"])
        for part in parts
    )
    assert times is not None and amounts is not None
    sizes = [len(each.numbers) for each in (times, amounts, duration) if each]
    if len(set(sizes)) > 1:
        raise ResultError("`problem.doses` has tables of different lengths.")
    is_set = described["is_set"]
    return Event(described["state"], times, amounts, duration, is_set)
