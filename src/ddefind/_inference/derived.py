"""Quantities derived from the parameters by a formula, such as `r * tau` or `b[0] / K`,
with their standard errors."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

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
from .._equation.parser import EquationError, Source, parse_statements, read_source
from .._equation.translate_formula import Translator
from .._util.errors import did_you_mean
from .._util.shown import decimals, format_interval, format_number
from .covariance import Uncertainty, propagate

# A parameter name with dots or indices: `b[0]`, `rhs.weight[1,2]`.
_COMPOUND_NAME = re.compile(r"[A-Za-z]\w*(?:\.\w+|\[\d+(?:,\d+)*\])+")
_NON_WORD = re.compile(r"[^\w]")


@final
@dataclass(frozen=True)
class Derived:
    """Function of the parameters: its value, with standard error and confidence
    interval by the delta method. These are infinite if the data do not determine the
    quantity; then `reason` says why."""

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
        text = f"{self.expression} ="
        if not self.is_determined:
            return f"{text} {self.value:.5g}, not determined. {self.reason}"
        digits = decimals(self.value, self.standard_error)
        ends = format_interval(*self.interval, digits)
        return (
            f"{text} {format_number(self.value, digits)}, standard error "
            f"{self.standard_error:.2g}, {100 * self.level:g}% interval {ends}"
            f"{'. ' + self.reason if self.reason else ''}"
        )


def derive(
    uncertainty: Uncertainty, known: Mapping[str, int | float], text: str, level: float
) -> Derived:
    """Compute the quantity that the formula `text` defines, with its uncertainty.

    `known` has an entry for every name of every parameter: the index of a free value,
    as an `int`, or the value of a fixed one, as a `float`."""
    formula, parameters = _parse(text, known)

    @jax.jit
    def function(theta):
        values = {name: known[parameter] for name, parameter in parameters.items()}
        values = {n: theta[v] if isinstance(v, int) else v for n, v in values.items()}
        return jnp.reshape(as_number(evaluate_formula(formula, values)), ())

    theta = jnp.asarray(uncertainty.theta)
    value, gradient = (np.asarray(a) for a in jax.value_and_grad(function)(theta))
    if not np.isfinite(value) or not np.all(np.isfinite(gradient)):
        raise ValueError(f"`{text}` or its slope is not finite at the estimate.")
    names = uncertainty.setup.model.free.names
    propagated = propagate(uncertainty, gradient, 1e-6 * abs(value))
    # A value that only its bounds limit counts as known in predictions, but gives a
    # derived quantity no standard error.
    limited_by_bounds = (
        uncertainty.without_information
        & ~uncertainty.without_influence
        & ~uncertainty.at_bound
    )
    is_undetermined = propagated.moved | (limited_by_bounds & (gradient != 0))
    is_held = uncertainty.at_bound & (gradient != 0)
    undetermined, at_bound = (
        ", ".join(f"`{names[j]}`" for j in np.flatnonzero(which))
        for which in (is_undetermined, is_held)
    )
    sd = float(propagated.sd)
    if undetermined or (at_bound and sd == 0):
        reason = f"The data do not determine {undetermined}."
        reason = reason if undetermined else f"On a bound: {at_bound}."
        ends = (-np.inf, np.inf)
        return Derived(text, float(value), np.inf, level, ends, reason)
    half_width = uncertainty.quantile(level) * sd
    ends = (float(value - half_width), float(value + half_width))
    reason = f"On a bound, and taken as known: {at_bound}." if at_bound else ""
    return Derived(text, float(value), sd, level, ends, reason)


def _parse(
    text: str, known: Mapping[str, int | float]
) -> tuple[Expression, dict[str, str]]:
    """Parse the formula, and find the parameter for each name in it.

    Formulas have no dots or indices. Compound names are therefore replaced by names of
    the same length, with underscores: error messages, which point at a column of the
    text, stay correct."""
    source = read_source("expression", text)
    plain = _COMPOUND_NAME.sub(lambda name: _NON_WORD.sub("_", name[0]), source.text)
    compound_names = {
        _NON_WORD.sub("_", name): name for name in _COMPOUND_NAME.findall(source.text)
    }
    try:
        return _checked_formula(type(source)(plain), known, compound_names)
    except EquationError as error:
        message = str(error)
        for written, name in compound_names.items():
            message = message.replace(written, name)
        raise EquationError(message) from None


def _checked_formula(
    source: Source, known: Mapping[str, int | float], compound_names: Mapping[str, str]
) -> tuple[Expression, dict[str, str]]:
    """Parse a formula without compound names, as `_parse` does."""
    parsed = parse_statements(source)
    if len(parsed) != 1 or parsed[0].kind != "value":
        raise EquationError(
            "Give one expression of the parameters, such as `r * tau`, without '='."
        )
    translator = Translator(())
    formula = translator.formula(parsed[0], "observe")
    if translator.is_condition(formula):
        raise parsed[0].error("Give a number: a comparison has no error bar.")
    parameters = {}
    for part in walk(formula):
        if not isinstance(part, Name) or part.name in CONSTANTS:
            continue
        parameter = compound_names.get(part.name, part.name)
        is_ambiguous = parameter != part.name and part.name in known
        if parameter not in known or is_ambiguous:
            raise EquationError(
                f"There is no parameter {parameter!r}.{did_you_mean(parameter, known)}"
            )
        parameters[part.name] = parameter
    return formula, parameters
