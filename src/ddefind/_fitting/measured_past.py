"""`history="data"`: the measured beginning of a record is the past.

A smoothing spline through the data is taken as the history, and the equation is fitted
to the record from the longest delay on. The state at that time is learned. The solver's
time zero is moved there; results keep the times of the data."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from .._data.data import Data
from .._data.smoothing import Curve, smooth
from .._equation.equation import Equation, equation
from .._problem.delays import is_delay
from .._problem.history import Measured
from .._problem.parameter_names import parameter_arrays
from .._problem.parameters import Fixed, Parameter, find
from .._results.estimate import Estimate
from .._util import wording
from .full_names import by_full_names

# Fits a model whose history is known to data, with settings of the parameters by full
# names and a solver (None: the fit chooses it).
Fit = Callable[[Equation, Data, dict[str, Any], Any], Estimate]
# Delays are sought up to this share of the record, unless the user says otherwise; what
# is left must suffice to fit.
_LONGEST = 1 / 3
# A minimum with a shorter delay fits not much worse if its sum of squares is at most
# this multiple of the lowest.
_NOT_MUCH_WORSE = 2.0
# The second fit begins this multiple of the delay that the first one found after the
# beginning of the record.
_MARGIN = 1.5


def fit_after_past(
    constant: Equation,
    data: Data,
    parameters: Mapping[str, Any],
    fit: Fit,
) -> Estimate:
    """The fit of a model, given with a constant history, to the record from the longest
    delay on. `parameters` are the user's settings by full names.

    Unless the user limits the delays, there are two fits: the delays that the first one
    finds tell how much of the record the past needs."""
    curve = _checked_curve(constant, data)
    settings = by_full_names(constant.blank, constant.settings) | dict(parameters)
    span = _LONGEST * (data.T - data.t[0])
    longest, bounds = _longest_delay(constant, settings, span)
    first = _fit_from(constant, data, curve, longest, settings | bounds, fit, None)
    if not bounds or not np.isfinite(first.loss):
        return first
    found = _MARGIN * _shortest_found(first)
    if found >= longest:
        return first
    longest, bounds = _longest_delay(constant, settings, found)
    settings |= bounds
    second = _fit_from(constant, data, curve, longest, settings, fit, first.solver)
    return replace(second, seconds=first.seconds + second.seconds)


def _shortest_found(fit: Estimate) -> float:
    """The longest delay of the best minimum; or of one where it is less than half as
    long, and which fits not much worse.

    Where data oscillate, a delay that is longer by a period fits as well. It even fits
    better, since more of the trajectory then follows the smoothed data."""
    minima = fit.search_result.minima
    delays = fit.setup.delay(np.array([minimum.theta for minimum in minima]))
    losses = np.array([minimum.loss for minimum in minima])
    fits_well = losses <= _NOT_MUCH_WORSE * losses[0]
    shorter = delays[fits_well & (delays < delays[0] / 2)]
    return float(np.min(shorter, initial=delays[0]))


def _checked_curve(model: Equation, data: Data) -> Curve:
    """The smooth curve through the data, which must have all states."""
    if model.depends_on_time:
        raise ValueError(
            f"The equation contains the time t, but {wording.history('data')} moves "
            "the time at which it begins. Choose another history, as "
            f"{wording.history('spline')}."
        )
    if model.lines.of("initial"):
        line = model.lines.of("initial")[0]
        raise ValueError(
            f"The text gives a value at time zero ({line}), but with "
            f"{wording.history('data')} the equation begins later. Remove the line, or "
            "choose another history."
        )
    measured = np.isfinite(data.x).sum(axis=0)
    lacking = [n for n, count in zip(data.names, measured) if count < 5]
    curve = None if lacking or model.lines.observe else smooth(data)
    if curve is None:
        few = ", ".join(lacking) or ", ".join(model.states)
        raise ValueError(
            f"With {wording.history('data')} the measured beginning is the past, so "
            "that every state must be measured, at five times or more; it is not for: "
            f"{few}. "
            f"Choose another history, as {wording.history('spline')}."
        )
    return curve


def _longest_delay(
    model: Equation, settings: Mapping[str, Any], default: float
) -> tuple[float, dict[str, Any]]:
    """The longest delay that is possible, and upper bounds for the delays to which the
    user gives none: the `default`."""
    blank = model.blank
    arrays = parameter_arrays(blank)
    leaves = jax.tree.leaves(blank.tau, is_leaf=is_delay)
    lengths = [default] if any(map(is_delay, leaves)) else []
    bounds: dict[str, Any] = {}
    for array in (each for each in arrays if each.is_delay):
        keys = [k for k in settings if array.first in find(k, arrays)]
        setting = settings[keys[0]] if keys else Parameter()
        if not isinstance(setting, Parameter | Fixed):
            setting = Parameter(start=setting)
        if isinstance(setting, Fixed):
            value = setting.value
            lengths.append(float(np.max(blank.tau if value is None else value)))
        elif setting.upper is not None and np.isfinite(setting.upper):
            lengths.append(float(setting.upper))
        else:
            lengths.append(default)
            bounds[array.name] = replace(setting, upper=default)
    return max(lengths), bounds


def _fit_from(
    model: Equation,
    data: Data,
    curve: Curve,
    longest: float,
    settings: Mapping[str, Any],
    fit: Fit,
    solver: Any,
) -> Estimate:
    """The fit to the record after the time `longest` from its beginning."""
    zero = float(data.t[0]) + longest
    is_later = data.t >= zero
    if len(np.unique(data.t[is_later])) < 2:
        raise ValueError(
            f"The delay may be as long as {longest:g}, but the record from t = "
            f"{zero:g} on has fewer than two times. Give the delay a smaller "
            f"upper bound {wording.BOUNDS}."
        )
    later = data.with_fields(
        t=data.t[is_later] - zero,
        x=data.x[is_later],
        sd=None if data.sd is None else data.sd[is_later],
        below=None if data.below is None else data.below[is_later],
    )
    text, names = model.texts[0], _start_names(model)
    lines = [f"{state}(0) = {name}" for state, name in zip(model.states, names)]
    past = _past(curve, zero)
    begun = equation("; ".join([text, *lines]), history=past, networks=model.networks)
    at_zero = curve.x(np.array([zero]))[0].tolist()
    starts = {f"initial.{name}": value for name, value in zip(names, at_zero)}
    held = {f"history.{name}": Fixed() for name in vars(past)}
    return fit(begun, later, {**settings, **starts, **held}, solver)


def _start_names(model: Equation) -> list[str]:
    """Names for the states at which the fit begins, which are not in the equation."""
    taken, ending = {*model.names, *model.states}, "_0"
    while any(f"{state}{ending}" in taken for state in model.states):
        ending += "0"
    return [f"{state}{ending}" for state in model.states]


def _past(curve: Curve, zero: float) -> Measured:
    """The curve before `zero`, as a history. The second derivative of a cubic spline is
    a straight line between its knots, so that it can be divided at the knots of the
    others."""
    knots = np.unique(np.concatenate([spline.t for spline in curve.splines]))
    knots = knots[: max(int(np.searchsorted(knots, zero)) + 1, 2)]
    second = [np.interp(knots, spline.t, spline.second) for spline in curve.splines]
    return Measured(
        knots=knots - zero,
        x=np.stack([spline(knots) for spline in curve.splines], axis=1),
        second=np.stack(second, axis=1),
        lowest=curve.lowest,
        highest=curve.highest,
        zero=zero,
    )
