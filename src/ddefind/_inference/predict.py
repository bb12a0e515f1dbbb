"""Predictions: what the model says at any time, how sure it is, and why not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._least_squares.normal_equations import Model
from .._least_squares.observe import observed
from .._problem.parameters import (
    find,
    finite_numbers,
    parameter_vector,
    with_values,
)
from .._problem.problem import Problem
from .._util.text_table import html_table, table_lines
from .covariance import Uncertainty
from .delta_method import Propagated, propagate

# Times of a prediction up to a given one; rows of a printed table.
_TIMES, _ROWS = 201, 12


@final
@dataclass(frozen=True)
class Prediction:
    """What is observed at times `t`: arrays are (len(t), k), for the k quantities
    `names`.

    `low` and `high` are the confidence band of the trajectory, with `sd` its standard
    deviation; `noisy_low` and `noisy_high` hold a new measurement. `determined` is
    false where parameters matter that the data do not determine: the band then leaves
    them out, and `notes` say so."""

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

    def _rows(self) -> list[tuple[str, ...]]:
        share = f"{100 * self.level:g}%"
        header = ["t"]
        for name in self.names:
            header += [name, f"{share} band", f"{share} with noise"]
        shown = np.unique(np.linspace(0, len(self.t) - 1, _ROWS).round().astype(int))
        rows = [tuple(header)]
        for i in shown:
            row = [f"{self.t[i]:.5g}"]
            for c in range(len(self.names)):
                row += [
                    f"{self.mean[i, c]:.4g}",
                    f"[{self.low[i, c]:.4g}, {self.high[i, c]:.4g}]",
                    f"[{self.noisy_low[i, c]:.4g}, {self.noisy_high[i, c]:.4g}]",
                ]
            rows.append(tuple(row))
        return rows

    def __str__(self) -> str:
        lines = table_lines(self._rows(), left=())
        if len(self.t) > _ROWS:
            lines.append(f"({_ROWS} of {len(self.t)} times)")
        return "\n".join([*lines, *self.notes])

    def _repr_html_(self) -> str:
        return html_table(self._rows(), self.notes)

    def plot(self) -> Any:
        """A matplotlib figure: the trajectory with its bands."""
        from ..plots import plot_prediction

        return plot_prediction(self)


def read_times(times: Any, T: float) -> np.ndarray:
    """Times as an array; a number is the end of an even grid, None that of the data."""
    try:
        found = np.asarray(T if times is None else times, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"`times` must be numbers, but got {times!r}.") from None
    bad = ~np.isfinite(found) | (found < 0) | ((found == 0) & (found.ndim == 0))
    if found.ndim > 1 or found.size == 0 or np.any(bad):
        raise ValueError(
            "`times` must be the last time of the prediction, or a vector of times "
            f"from 0 on, but got {times!r}."
        )
    return np.linspace(0, float(found), _TIMES) if found.ndim == 0 else found


def predict(
    uncertainty: Uncertainty,
    problem: Problem,
    times: np.ndarray,
    parameters: Mapping[str, Any],
    level: float,
) -> Prediction:
    """What the fitted `problem` says at `times`, with other values of `parameters`."""
    setup, search_result = uncertainty.setup, uncertainty.search_result
    model, theta, given = _changed(uncertainty, problem, parameters)
    before, tau = setup.delay(uncertainty.theta[None])[0], _delay(model, theta)
    n = int(np.ceil(search_result.best.n[0] * max(tau / before, 1.0)))
    seen = observed(model, theta, times, n, len(setup.data.names))
    mean, gradient = seen[..., 0], np.where(given, 0.0, seen[..., 1:])
    _check_finite(times, seen)
    measured = setup.measured
    noise = np.where(measured, search_result.noise, 0.0)
    found = propagate(uncertainty, gradient, noise)
    found = found._replace(moved=found.moved & ~given)
    q = uncertainty.quantile(level)
    away, noisy = q * found.sd, q * np.hypot(found.sd, noise)
    return Prediction(
        times,
        setup.data.names,
        mean,
        found.sd,
        mean - away,
        mean + away,
        mean - noisy,
        mean + noisy,
        np.all(~found.moved, axis=-1),
        level,
        tuple(_notes(uncertainty, times, found, gradient, measured)),
    )


def _changed(
    uncertainty: Uncertainty, problem: Problem, parameters: Mapping[str, Any]
) -> tuple[Model, np.ndarray, np.ndarray]:
    """The model and its free values with other parameters, and which of the free
    values were given."""
    model, theta = uncertainty.setup.model, uncertainty.theta.copy()
    free, vector = model.free, parameter_vector(problem)
    like = np.array(free.like)
    given = np.zeros(len(theta), bool)
    for key, value in parameters.items():
        where = find(key, list(free.arrays))
        for element, number in zip(where, finite_numbers(key, value, len(where))):
            if key == "tau" and number <= 0:
                raise ValueError(f"`tau` must be positive, but got {number:g}.")
            vector[like == like[element]] = number
            source = free.source[element]
            if source >= 0:
                theta[source], given[source] = number, True
    learned, fixed = free.split(with_values(problem, vector))
    return (
        eqx.tree_at(lambda m: (m.learned, m.fixed), model, (learned, fixed)),
        theta,
        given,
    )


def _delay(model: Model, theta: np.ndarray) -> float:
    return float(model.free.join(jnp.asarray(theta), model.learned).tau)


def _check_finite(times: np.ndarray, seen: np.ndarray) -> None:
    bad = ~np.all(np.isfinite(seen), axis=(1, 2))
    if bad.any():
        raise ValueError(
            f"The trajectory is not finite from t = {times[bad].min():.4g} on: it "
            "grows without limit. Ask for earlier `times`, or other `parameters`."
        )


def _notes(
    uncertainty: Uncertainty,
    times: np.ndarray,
    found: Propagated,
    gradient: np.ndarray,
    measured: np.ndarray,
) -> list[str]:
    names = uncertainty.setup.model.free.names
    notes = []
    for j in np.flatnonzero(found.moved.any(axis=(0, 1))):
        first = times[found.moved[..., j].any(axis=1)].min()
        notes.append(
            f"From t = {first:.4g} on `{names[j]}` matters, which the data do not "
            "determine; the bands leave it out."
        )
    used = np.any(gradient != 0, axis=(0, 1))
    held = [f"`{names[j]}`" for j in np.flatnonzero(uncertainty.at_bound & used)]
    if held:
        notes.append(f"On a bound, and taken as known: {', '.join(held)}.")
    lacking = _names(uncertainty.setup.data.names, ~measured)
    if lacking:
        notes.append(f"Not measured, so without noise: {lacking}.")
    return notes


def _names(names: Sequence[str], which: np.ndarray) -> str:
    return ", ".join(name for name, chosen in zip(names, which) if chosen)
