"""The last fit of a discovery: `dd.fit` of the best equation, from what was found."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .._data.data import Data
from .._equation.equation import Equation, equation
from .._fitting.experiment import Experiment
from .._fitting.fit import fit
from .._fitting.least_squares import LeastSquares
from .._problem.parameters import Fixed, Parameter
from .._results.estimate import Estimate
from .search import Model
from .stages import Question

# The starts of a fit that begins at what the search found.
_STARTS = 6


def found_equation(model: Model) -> Equation:
    """The equation of a model, with the history of its fit."""
    exact = model.stage.search.exact
    history = exact.history if model.delays else "constant"
    return equation(model.text, history=history)


def searched_data(question: Question) -> Data | tuple[Experiment, ...]:
    """The data of a question, as `fit` takes them."""
    data = question.data
    if isinstance(data, Data):
        return data
    pairs = zip(data.parts, data.labels)
    return tuple(Experiment(part, label=label) for part, label in pairs)


def last_fit(
    model: Model,
    parameters: Mapping[str, Parameter | Fixed],
    intervals: bool,
    seed: int,
    progress: Any,
) -> Estimate | None:
    """The fit of a model; None if it has no finite loss."""
    exact = model.stage.search.exact
    # Far from the data a search for something better would go on for long.
    starts = _STARTS if exact.is_near(model.fitted) else 1
    found = fit(
        found_equation(model),
        searched_data(model.stage.question),
        optimizer=LeastSquares(starts=starts),
        parameters=parameters,
        intervals=intervals,
        seed=seed,
        progress=progress,
    )
    return found if np.isfinite(found.loss) else None


def last_settings(model: Model) -> dict[str, Parameter | Fixed]:
    """The settings of all parameters of a model, with what was found as starts. (Those
    that bend a smooth history are found by the fit.)"""
    library, exact = model.stage.library, model.stage.search.exact
    structure, theta = model.fitted.structure, model.fitted.theta
    settings, bounds = model.stage.question.settings, model.stage.question.bounds
    places, names = exact.coefficients[: len(structure)], found_equation(model).names
    found: dict[str, Parameter | Fixed] = {
        library.coefficient(j + 1): Parameter(value)
        for j, value in enumerate(theta[places].tolist())
    }
    inner = dict(zip(library.parameters, theta[exact.inner_places].tolist()))
    for name in library.parameters_in(structure):
        setting = settings.get(name, Parameter())
        if name not in library.known_parameters:
            setting = _positive(setting)
        # One that is called as one of the history has a longer name.
        shown = name if name in names else f"rhs.{name}"
        found[shown] = _from(inner[name], setting)
    for name, value in model.delays.items():
        setting = settings.get("tau")
        if not isinstance(setting, Fixed):
            setting = Parameter(lower=bounds[0], upper=bounds[1])
        found[name] = _from(value, setting)
    return found | _history_settings(model)


def _history_settings(model: Model) -> dict[str, Parameter]:
    """The settings of the history, in every experiment."""
    data, exact = model.stage.question.data, model.stage.search.exact
    is_flat = found_equation(model).history == "constant"
    ends = [""] if isinstance(data, Data) else [f"@{label}" for label in data.labels]
    states = [f"[{i}]" for i in range(len(data.names))] if len(data.names) > 1 else [""]
    return {
        f"history.{field}{state}{end}": Parameter(float(model.fitted.theta[place]))
        for field in ("b" if is_flat else "ab")
        for end, places in zip(ends, exact.history_places(field))
        for state, place in zip(states, places)
    }


def _positive(setting: Parameter | Fixed) -> Parameter | Fixed:
    """The setting with zero as the lower bound, unless it says otherwise."""
    if isinstance(setting, Fixed) or setting.lower is not None:
        return setting
    is_negative = setting.upper is not None and setting.upper <= 0
    return setting if is_negative else replace(setting, lower=0.0)


def _from(value: float, setting: Parameter | Fixed) -> Parameter | Fixed:
    """The setting, with a start inside of its bounds."""
    if isinstance(setting, Fixed):
        return setting
    lower = -np.inf if setting.lower is None else setting.lower
    upper = np.inf if setting.upper is None else setting.upper
    width = upper - lower if np.isfinite(upper - lower) else max(abs(value), 1e-6)
    inside = 1e-6 * width
    return replace(setting, start=float(np.clip(value, lower + inside, upper - inside)))
