"""Predictions of the model at any time, with confidence bands by the delta method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import equinox as eqx
import numpy as np

from .._data.data import Data
from .._problem.driving import check_inputs_known
from .._problem.network_weights import (
    Networks,
    named_indices,
    networks_of,
    without_weights,
)
from .._problem.parameters import find, finite_numbers, parameter_vector, with_values
from .._problem.problem import Problem
from .._search.batches import observed
from .._search.normal_equations import LeastSquaresModel
from .._util import wording
from .._util.errors import shown
from .._util.shown import AbstractShown, Cells, Shown, data_frame, listed
from .covariance import Uncertainty, propagate

# The number of times of a prediction that is given only its last one.
_TIMES = 201
# The number of rows of a printed table.
_ROWS = 12
# The largest number of steps of a solver with fixed steps: they take some minutes.
_MOST_STEPS = 1e7


@final
@dataclass(frozen=True)
class Prediction(AbstractShown):
    """Prediction of the k quantities `names` at the times `t`. Arrays have the shape
    (len(t), k).

    `mean` is the fitted trajectory and `sd` its standard deviation. `low` and `high`
    are its confidence band; between `noisy_low` and `noisy_high` a new measurement is
    expected. `determined` is false where the prediction depends on parameters that the
    data do not determine: the band does not include their uncertainty, and `notes` say
    so. `data` are the data of the fit."""

    t: np.ndarray
    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray
    noisy_low: np.ndarray
    noisy_high: np.ndarray
    determined: np.ndarray
    level: float
    notes: tuple[str, ...]
    data: Data

    def known_bands(self) -> dict[str, np.ndarray]:
        """Return the ends of both bands, NaN where the data do not determine them."""
        return {
            name: np.where(self.determined, getattr(self, name), np.nan)
            for name in ("low", "high", "noisy_low", "noisy_high")
        }

    def cells(self, shown: np.ndarray, time: str, times: Sequence[str]) -> Cells:
        """Return the table of the rows `shown`, whose times are given as text."""
        share = f"{100 * self.level:g}%"
        header = [time]
        for name in self.names:
            header += [name, f"{share} band", f"{share} with noise"]
        bands = (self.low, self.high), (self.noisy_low, self.noisy_high)
        rows = []
        for text, i in zip(times, shown):
            row = [text]
            for c, is_determined in enumerate(self.determined[i]):
                ends = [f"[{low[i, c]:.4g}, {high[i, c]:.4g}]" for low, high in bands]
                ends = ends if is_determined else ["not determined"] * 2
                row += [f"{self.mean[i, c]:.4g}", *ends]
            rows.append(row)
        return Cells(header, rows, left=())

    def shown(self) -> Shown:
        """Return the table of some times, and the notes on the bands."""
        shown = np.unique(np.linspace(0, len(self.t) - 1, _ROWS).round().astype(int))
        table = self.cells(shown, "t", [f"{t:.5g}" for t in self.t[shown]])
        is_part = len(self.t) > len(shown)
        some = [f"({_ROWS} of {len(self.t)} times)"] if is_part else []
        return Shown([table, *some, *self.notes])

    def to_frame(self) -> Any:
        """Return a pandas data frame with a row for each time and quantity."""
        arrays = ("mean", "sd", "low", "high", "noisy_low", "noisy_high", "determined")
        columns: dict[str, Any] = {"t": np.repeat(self.t, len(self.names))}
        columns["quantity"] = list(self.names) * len(self.t)
        columns |= {name: getattr(self, name).ravel() for name in arrays}
        return data_frame(columns)

    def plot(self, ax: Any = None) -> Any:
        """Draw the trajectory with its bands, and the data, with matplotlib. `ax` are
        axes to draw on, one for each quantity."""
        from ..plots import plot_prediction

        return plot_prediction(self, ax)


def read_times(times: Any, T: float, zero: float = 0.0) -> np.ndarray:
    """Read the user's `times`, counted from the time `zero` at which the history ends.
    A single number is the end of an evenly spaced grid; None stands for the end of the
    data, T."""
    try:
        array = np.asarray(T if times is None else times, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(
            f"{wording.TIMES} must be numbers, but got {times!r}."
        ) from None
    is_bad = ~np.isfinite(array) | (array < zero)
    is_bad |= (array == zero) & (array.ndim == 0)
    if array.ndim > 1 or array.size == 0 or np.any(is_bad):
        raise ValueError(
            f"{wording.TIMES} must be the last time of the prediction, or a vector of "
            f"times from {zero:g} on, but got {times!r}."
        )
    if array.ndim == 0:
        return np.linspace(0, float(array) - zero, _TIMES)
    return array - zero


def predict(
    uncertainty: Uncertainty,
    problem: Problem,
    times: np.ndarray,
    parameters: Mapping[str, Any],
    level: float,
) -> Prediction:
    """Predict the fitted `problem` at `times`.

    `parameters` are values to be used instead of the fitted ones, by name. They count
    as known exactly; all other values keep their estimates and their covariance."""
    check_inputs_known(problem, float(np.max(times)))
    setup, search_result = uncertainty.setup, uncertainty.search_result
    assert isinstance(setup.data, Data)
    model, theta, is_given = _with_parameters(uncertainty, problem, parameters)
    learned = model.free.join_values(theta, model.learned)
    check_inputs_known(eqx.combine(learned, model.fixed), float(times.max()))

    def delays() -> tuple[float, float]:
        now = replace(setup, model=model)
        return setup.delay(uncertainty.theta[None])[0], now.delay(theta[None])[0]

    n = int(search_result.best.n[0])
    n, length = model.engine.later_steps(n, delays, setup.data.T)
    _check_length(times, length)
    values = observed(model, theta, times, n, len(setup.data.names))
    mean, gradient = values[..., 0], np.where(is_given, 0.0, values[..., 1:])
    _check_finite(model, theta, times, values)
    noise = setup.misfit.new_sizes(uncertainty, mean)
    sd, moved = propagate(uncertainty, gradient, noise)
    moved = moved & ~is_given
    q = uncertainty.quantile(level)
    networks = networks_of(problem, setup.model.free.names)
    return Prediction(
        times,
        setup.data.names,
        mean,
        sd,
        mean - q * sd,
        mean + q * sd,
        *setup.misfit.new_ends(uncertainty, mean, sd, q),
        np.all(~moved, axis=-1),
        level,
        tuple(_notes(uncertainty, times, moved, gradient, networks)),
        setup.data,
    )


def _check_length(times: np.ndarray, step: float) -> None:
    """Raise an error if the last time is too many steps of the given length away."""
    last = float(times.max())
    if last / step > _MOST_STEPS:
        raise ValueError(
            f"The prediction up to t = {last:.6g} needs {last / step:.2g} steps of the "
            f"solver, and at most {_MOST_STEPS:.0e} are taken. Ask for "
            f"{wording.EARLIER_TIMES}."
        )


def _with_parameters(
    uncertainty: Uncertainty, problem: Problem, parameters: Mapping[str, Any]
) -> tuple[LeastSquaresModel, np.ndarray, np.ndarray]:
    """Replace some `parameters`: return the model, its free values, and which of these
    were given. Parameters that are tied to a given one change with it."""
    if not isinstance(parameters, Mapping):
        raise TypeError(
            "`parameters` maps names to values, as {'tau': 1.0}, but got "
            f"{shown(parameters)}."
        )
    model, theta = uncertainty.setup.model, uncertainty.theta.copy()
    free, vector = model.free, parameter_vector(problem)
    like = np.array(free.like)
    is_given = np.zeros(len(theta), bool)
    positive = [array.first for array in free.arrays if array.is_positive]
    roles = {array.first: array.role for array in free.arrays}
    for key, value in parameters.items():
        elements = find(key, list(free.arrays))
        for element, number in zip(elements, finite_numbers(key, value, len(elements))):
            if element in positive and number <= 0:
                raise ValueError(f"`{key}` must be positive, but got {number:g}.")
            role = roles.get(element)
            if role and role.usual and number < role.usual[0]:
                raise ValueError(
                    f"`{key}` is {role.title}, which is at least {role.usual[0]:g}, "
                    f"but got {number:g}."
                )
            vector[like == like[element]] = number
            source = free.source[element]
            if source >= 0:
                theta[source], is_given[source] = number, True
    parts = free.split(with_values(problem, vector))
    model = eqx.tree_at(lambda m: (m.learned, m.fixed), model, parts)
    return model, theta, is_given


def _check_finite(
    model: LeastSquaresModel, theta: np.ndarray, times: np.ndarray, values: np.ndarray
) -> None:
    """Raise an error if the trajectory is not finite. A march with adaptive steps that
    does not reach its end says itself where that is, and why."""
    is_bad = ~np.all(np.isfinite(values), axis=(1, 2))
    if is_bad.any():
        learned = model.free.join_values(theta, model.learned)
        problem = eqx.combine(learned, model.fixed)
        model.engine.explain(problem, float(times.max()))
        raise ValueError(
            f"The trajectory is not finite from t = {times[is_bad].min():.4g} on: it "
            f"grows without limit. Ask for {wording.EARLIER_TIMES}."
        )


def _notes(
    uncertainty: Uncertainty,
    times: np.ndarray,
    moved: np.ndarray,
    gradient: np.ndarray,
    networks: Networks,
) -> list[str]:
    """Say in sentences what the bands leave out."""
    names, notes = uncertainty.setup.model.free.names, []
    groups = {f"`{names[j]}`": [j] for j in named_indices(len(names), networks)}
    groups |= {f"weights of {n}": [*indices] for n, indices in networks.items()}
    first: dict[float, list[str]] = {}
    for what, indices in groups.items():
        is_moved = moved[..., indices].any(axis=(1, 2))
        if is_moved.any():
            first.setdefault(float(times[is_moved].min()), []).append(what)
    for time, what in sorted(first.items()):
        is_one = len(what) == 1 and what[0][0] == "`"
        matter, them = ("matters", "it") if is_one else ("matter", "them")
        notes.append(
            f"From t = {time:.4g} on {listed(what)} {matter}, which the data do not "
            f"determine; the bands leave {them} out."
        )
    has_influence = np.any(gradient != 0, axis=(0, 1))
    held = np.flatnonzero(uncertainty.at_bound & has_influence)
    if len(held):
        known = ", ".join(f"`{names[j]}`" for j in held)
        known = without_weights(known, names, networks)
        notes.append(f"On a bound, and taken as known: {known}.")
    quantities = zip(uncertainty.setup.data.names, uncertainty.setup.measured)
    lacking = ", ".join(name for name, is_measured in quantities if not is_measured)
    if lacking:
        notes.append(f"Not measured, so without noise: {lacking}.")
    return notes
