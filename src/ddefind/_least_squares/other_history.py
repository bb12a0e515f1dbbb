"""The same least-squares fit with another history.

`with_history` makes its setup from the one of a fit; `continued` fits it from values
that are already good, such as those of the fit with the simpler history, instead of
searching again."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np

from .._loss.path_costs import Points
from .._problem.free_parameters import FreeParameters
from .._problem.parameters import Fixed, Parameter, Tied, parameter_vector
from .._problem.problem import Problem
from .batches import refine
from .normal_equations import Priors
from .search import SearchResult, search
from .setup import FitSetup, make_setup


def with_history(
    setup: FitSetup, problem: Problem, history: Any, settings: dict[str, Any]
) -> tuple[FitSetup, Problem]:
    """The setup and the problem with another `history`.

    Every parameter outside of the history keeps its bounds and its prior, and is free,
    fixed or tied as it was; so does the offset `b` of the history. `settings` are those
    of the history's other parameters."""
    kept = _settings(setup, problem)
    other = eqx.tree_at(lambda p: p.history, problem, history)
    made, filled = make_setup(
        other,
        setup.data,
        kept | settings,
        setup.model.solver,
        setup.steps_per_delay,
        setup.model.huber,
        workers=setup.workers,
    )
    priors = _joined_priors(setup, made)
    return replace(made, model=replace(made.model, priors=priors)), filled


def _settings(setup: FitSetup, problem: Problem) -> dict[str, Any]:
    """What the fit does with each element of the parameters, by full names."""
    free, values = setup.model.free, parameter_vector(problem)
    names = _full_names(free)
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


def _full_names(free: FreeParameters) -> list[str]:
    return [name for array in free.arrays for name in array.elements(array.name)]


def _joined_priors(old: FitSetup, new: FitSetup) -> Priors | None:
    """The priors of the new setup, with those of the old one for what both have."""
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
    """The free values of a problem, within their bounds."""
    free, values = setup.model.free, parameter_vector(problem)
    theta = np.array([values[free.source.index(j)] for j in range(len(free.names))])
    return np.clip(theta, setup.lower, setup.upper)


def continued(
    setup: FitSetup, theta: np.ndarray, noise: np.ndarray, seed: int
) -> SearchResult:
    """The best fit from the rows of `theta`: all are fitted with the given `noise`, and
    the best of them goes through the later phases of a search."""
    points: Points = setup.points(noise)
    fits = refine(setup, theta, points, setup.steps(theta))
    best = fits.theta[int(np.argmin(fits.loss))]
    return search(replace(setup, guess=best), 1, seed)
