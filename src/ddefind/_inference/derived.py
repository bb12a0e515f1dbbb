"""Quantities derived from the parameters, from text: `r * tau`, `b[0] / K`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from .._equation.expression import (
    CONSTANTS,
    Expression,
    Name,
    as_number,
    evaluate_formula,
    walk,
)
from .._equation.parser import EquationError, parse_statements, read_source
from .._equation.translate_formula import Translator
from .._util.errors import did_you_mean
from .._util.text_table import decimals, format_interval, format_number
from .covariance import Uncertainty
from .delta_method import propagate

# A name as fits show them: `theta_0`, `b[0]`, `rhs.weight[1,2]`.
_NAME = re.compile(r"[A-Za-z]\w*(?:\.\w+|\[\d+(?:,\d+)*\])+")
_PART = re.compile(r"[^\w]")


@final
@dataclass(frozen=True)
class Derived:
    """A function of the parameters: its value, its standard error and its interval by
    the delta method. Infinite where the data do not determine it; `reason` says why."""

    expression: str
    value: float
    standard_error: float
    level: float
    interval: tuple[float, float]
    reason: str

    @property
    def is_determined(self) -> bool:
        return bool(np.isfinite(self.standard_error))

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        if not self.is_determined:
            return (
                f"{self.expression} = {self.value:.5g}, not determined. {self.reason}"
            )
        digits = decimals(self.value, self.standard_error)
        ends = format_interval(*self.interval, digits)
        return (
            f"{self.expression} = {format_number(self.value, digits)}, standard error "
            f"{self.standard_error:.2g}, {100 * self.level:g}% interval {ends}"
            f"{'. ' + self.reason if self.reason else ''}"
        )


def derive(
    uncertainty: Uncertainty, known: Mapping[str, Any], text: str, level: float
) -> Derived:
    """The value of `text`, with its uncertainty; `known` are the values of fixed
    parameters, by all names under which they are known, and the numbers of free ones
    as an `int`."""
    formula, names = _read(text, known)

    @jax.jit
    def function(theta):
        values = {name: _value(known[names[name]], theta) for name in names}
        return jnp.reshape(as_number(evaluate_formula(formula, values)), ())

    theta = jnp.asarray(uncertainty.theta)
    value, gradient = (np.asarray(a) for a in jax.value_and_grad(function)(theta))
    if not np.isfinite(value) or not np.all(np.isfinite(gradient)):
        raise ValueError(f"`{text}` or its slope is not finite at the estimate.")
    shown = uncertainty.setup.model.free.names
    found = propagate(uncertainty, gradient, 1e-6 * abs(value))
    # What only bounds limit is known for predictions, but not as a number of its own.
    limited = uncertainty.lost & ~uncertainty.flat & ~uncertainty.at_bound
    moves = found.moved | (limited & (gradient != 0))
    moved = [f"`{name}`" for name, moving in zip(shown, moves) if moving]
    held = uncertainty.at_bound & (gradient != 0)
    at_bound = ", ".join(f"`{name}`" for name, holds in zip(shown, held) if holds)
    sd = float(found.sd)
    if moved or (at_bound and sd == 0):
        reason = f"The data do not determine {', '.join(moved)}."
        reason = reason if moved else f"On a bound: {at_bound}."
        ends = (-np.inf, np.inf)
        return Derived(text, float(value), np.inf, level, ends, reason)
    away = uncertainty.quantile(level) * sd
    ends = (float(value - away), float(value + away))
    reason = f"On a bound, and taken as known: {at_bound}." if at_bound else ""
    return Derived(text, float(value), sd, level, ends, reason)


def _value(known: Any, theta):
    return theta[known] if isinstance(known, int) else known


def _read(text: str, known: Mapping[str, Any]) -> tuple[Expression, dict[str, str]]:
    """The checked formula, and the parameters that its names stand for.

    Indices and dots are no part of formulas: such names are read with underscores in
    their places, letter for letter, so that errors point where they should."""
    source = read_source("expression", text)
    plain = _NAME.sub(lambda found: _PART.sub("_", found[0]), source.text)
    instead = {_PART.sub("_", name): name for name in _NAME.findall(source.text)}
    try:
        return _formula(type(source)(plain), known, instead)
    except EquationError as error:
        message = str(error)
        for written, name in instead.items():
            message = message.replace(written, name)
        raise EquationError(message) from None


def _formula(source, known: Mapping[str, Any], instead: Mapping[str, str]):
    found = parse_statements(source)
    if len(found) != 1 or found[0].kind != "value":
        raise EquationError(
            "Give one expression of the parameters, such as `r * tau`, without '='."
        )
    translator = Translator(())
    formula = translator.formula(found[0], "observe")
    if translator.is_condition(formula):
        raise found[0].error("Give a number: a comparison has no error bar.")
    names = {}
    for part in walk(formula):
        if not isinstance(part, Name) or part.name in CONSTANTS:
            continue
        name = instead.get(part.name, part.name)
        if name not in known or (name != part.name and part.name in known):
            raise EquationError(
                f"There is no parameter {name!r}.{did_you_mean(name, known)}"
            )
        names[part.name] = name
    return formula, names
