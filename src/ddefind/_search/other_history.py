"""The same least-squares fit with another history, or from other values.

`with_history` makes its setup from the one of a fit; `continued` fits it from values
that are already good, such as those of the fit with the simpler history, instead of
searching again."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np

from .._data.data import Data
from .._problem.history import Smooth
from .._problem.parameters import (
    Fixed,
    Gaussian,
    Parameter,
    Tied,
    find,
    parameter_arrays,
    parameter_vector,
)
from .._problem.problem import Problem
from .batches import Minimum, SearchResult, distinct_minima, refine
from .levenberg_marquardt import Priors
from .make_setup import make_setup
from .search import search
from .setup import FitSetup

# The prior of a coefficient is as wide as this multiple of the spread of its state.
_WIDTH = 1.0
# The length of a smooth history is the delay. With several delays it is this multiple
# of the longest one that a fit with a simpler history finds.
LENGTH = 1.25
_COEFFICIENTS = "history.c"


def with_roughness_priors(
    problem: Problem, settings: Mapping[str, Any], spread: np.ndarray
) -> dict[str, Any]:
    """Add priors of the coefficients of a smooth history, unless the user sets them.

    The data see the history through one delay only, and do not determine every bend of
    it. Each coefficient has therefore a Gaussian prior around zero, a straight line,
    whose standard deviation is `_WIDTH` times the `spread` of the state: all curves of
    the basis are equally rough, so that the priors penalise roughness."""
    settings = dict(settings)
    if not isinstance(problem.history, Smooth):
        return settings
    arrays = parameter_arrays(problem)
    elements = set(find(_COEFFICIENTS, arrays).tolist())
    if any(elements & set(find(key, arrays).tolist()) for key in settings):
        return settings
    k, d = problem.history.c.shape
    for i in range(d):
        prior = Gaussian(0.0, _WIDTH * float(spread[i]))
        for j in range(k):
            name = _COEFFICIENTS if k * d == 1 else f"{_COEFFICIENTS}[{j},{i}]"
            settings[name] = Parameter(prior=prior)
    return settings


# A fit from another start is better if its chi-square is lower by this.
_BETTER = 0.01


def with_history(
    setup: FitSetup, problem: Problem, history: Any, settings: dict[str, Any]
) -> tuple[FitSetup, Problem]:
    """Return the setup and the problem with another `history`.

    Every parameter outside of the history keeps its bounds and its prior, and is free,
    fixed or tied as it was; so does the offset `b` of the history. `settings` are those
    of the history's other parameters."""
    assert isinstance(setup.data, Data)
    kept = _settings(setup, problem)
    other = eqx.tree_at(lambda p: p.history, problem, history)
    made, _ = make_setup(
        other,
        setup.data,
        kept | settings,
        setup.model.engine.solver,
        setup.steps_per_delay,
        workers=setup.workers,
    )
    priors = _joined_priors(setup, made)
    return replace(made, model=replace(made.model, priors=priors)), other


def _settings(setup: FitSetup, problem: Problem) -> dict[str, Any]:
    """Return the setting of each element of the parameters, by full names."""
    free, values = setup.model.free, parameter_vector(problem)
    names = [name for array in free.arrays for name in array.elements(array.name)]
    settings: dict[str, Any] = {}
    for e, name in enumerate(names):
        if name.startswith("history.") and not name.startswith("history.b"):
            continue
        j = free.source[e]
        if j < 0:
            settings[name] = Fixed(float(values[e]))
        elif free.like[e] != e:
            settings[name] = Tied(names[free.like[e]])
        else:
            settings[name] = Parameter(lower=setup.lower[j], upper=setup.upper[j])
    return settings


def _joined_priors(old: FitSetup, new: FitSetup) -> Priors | None:
    """Return the priors of the new setup, with the old ones for what both have."""
    before, after = old.model.priors, new.model.priors
    if before is None:
        return after
    size = len(new.lower)
    mean, weight, log = np.zeros(size), np.zeros(size), np.zeros(size, bool)
    if after is not None:
        mean, weight, log = (np.array(each) for each in after)
    known = dict(zip(old.model.free.paths, range(len(old.lower))))
    for j, path in enumerate(new.model.free.paths):
        if (i := known.get(path)) is not None and before.weight[i] > 0:
            mean[j], weight[j], log[j] = (np.asarray(each)[i] for each in before)
    return Priors(mean, weight, log)


def free_values(setup: FitSetup, problem: Problem) -> np.ndarray:
    """Return the free values of a problem, within their bounds."""
    free, values = setup.model.free, parameter_vector(problem)
    theta = np.array([values[free.source.index(j)] for j in range(len(free.names))])
    return np.clip(theta, setup.lower, setup.upper)


def with_more_starts(
    setup: FitSetup, result: SearchResult, theta: np.ndarray, seed: int
) -> SearchResult:
    """Refine the rows of `theta` and add their minima to a result; search again from
    the best of them if it is better than the best fit."""
    theta = np.clip(theta[np.all(np.isfinite(theta), axis=1)], setup.lower, setup.upper)
    if not len(theta) or result.interrupted:
        return result
    fits = refine(setup, theta, result.points, setup.steps(theta))
    unit = result.best.unit(setup)
    lowest = int(np.argmin(fits.loss))
    if fits.loss[lowest] < result.best.loss[0] - _BETTER * unit:
        return moved_to(setup, result, fits.theta[lowest], seed, fits.theta)
    return replace(result, minima=_merged(setup, result, result.minima, fits.theta))


def moved_to(
    setup: FitSetup,
    result: SearchResult,
    theta: np.ndarray,
    seed: int,
    more: np.ndarray | None = None,
) -> SearchResult:
    """Search again from `theta` alone, and merge the minima with the known ones and
    those that are reached from the rows of `more`."""
    found = search(replace(setup, guess=theta), 1, seed)
    if not np.isfinite(found.best.loss[0]):
        return result
    rows = np.empty((0, len(theta))) if more is None else more
    minima = _merged(setup, found, (*found.minima, *result.minima), rows)
    return replace(found, minima=minima, starts=result.starts)


def _merged(
    setup: FitSetup, result: SearchResult, minima: tuple[Minimum, ...], more: np.ndarray
) -> tuple[Minimum, ...]:
    """Refine the minima and the rows of `more` with the weights of `result`, and return
    the distinct ones, first that of the best fit."""
    counts = [each.starts for each in minima] + [1] * len(more)
    theta = np.array([*(each.theta for each in minima), *more])
    fits = refine(setup, theta, result.points, setup.steps(theta))
    fits = replace(fits, starts=np.array(counts))
    best = replace(result.best, starts=np.zeros(1, int))
    others = fits.take(np.argsort(fits.loss, kind="stable"))
    return distinct_minima(setup, best.join(others))


def continued(
    setup: FitSetup, theta: np.ndarray, noise: np.ndarray, seed: int
) -> SearchResult:
    """Refine the rows of `theta`; search with finer steps from the best of them."""
    points = setup.points(noise)
    fits = refine(setup, theta, points, setup.steps(theta))
    best = fits.theta[int(np.argmin(fits.loss))]
    return search(replace(setup, guess=best), 1, seed)
