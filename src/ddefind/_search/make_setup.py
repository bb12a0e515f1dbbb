"""The setup of a least-squares fit, from what the user gives.

`make_setup` makes it for one experiment, and `make_study_setup` for several experiments
that are fitted together. Missing bounds are chosen: see `bounds.py`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from .._data.data import Data
from .._data.study_data import StudyData
from .._engine.choose import fit_engine, study_engine
from .._engine.runge_kutta import AbstractIntegrator
from .._problem.delays import DELAY, delay_names, is_delay
from .._problem.doses import check_dose_times
from .._problem.driving import any_inputs, check_covered, earliest_known
from .._problem.free_parameters import (
    FreeParameters,
    JointParameters,
    is_own_by_default,
    joint_parameters,
)
from .._problem.history import frequency_fields
from .._problem.network_weights import weights_of
from .._problem.parameters import (
    Fixed,
    Parameter,
    find,
    free_parameters,
    parameter_vector,
)
from .._problem.problem import Problem
from .._problem.without_doses import without_doses
from .._util import wording
from .._util.machine import cores
from .bounds import Bounds, bound_delay, bound_frequency, bound_shape, usual_delays
from .levenberg_marquardt import Priors
from .likelihood import Likelihood, bound_noise
from .misfit import AbstractMisfit
from .normal_equations import Experiments, LeastSquaresModel, stack
from .setup import FitSetup
from .squares import Squares

# The largest width of the prior of a weight in a first layer, for one in a history, and
# the least.
_OF_ONE_INPUT, _OF_HISTORY, _LEAST = 2.0, 3.0, 0.5
_FIRST_LAYER = re.compile(r"(.*)\.(weights|biases)\[0\]")


def weight_widths(free: FreeParameters, weights: list[int]) -> np.ndarray:
    """Return the standard deviation of the prior of each of the free values `weights`.

    The inputs and the outputs of a network are in units of the data, so that weights of
    about one can do everything. With a width of one, the bends of a function of one
    variable are made too weak, and the delay is biased; with a width of two, a function
    of several variables has more freedom than usual data can take from it, and the
    intervals of delays become too narrow. Therefore the first layer of a network with n
    inputs has the width 2 / n, but not less than one half, and all other weights have
    the width 1. A history, which may bend several times within one delay, has the width
    3."""
    widths = np.ones(len(free.names))
    arrays = {array.name: array for array in free.arrays}
    for array in free.arrays:
        found = _FIRST_LAYER.fullmatch(array.name)
        if found is None or f"{found[1]}.weights[1]" not in arrays:
            continue
        first = arrays[f"{found[1]}.weights[0]"]
        sources = np.array(free.source[array.first : array.first + array.size])
        base = _OF_HISTORY if array.name.startswith("history.") else _OF_ONE_INPUT
        width = max(base / first.shape[1], _LEAST)
        widths[sources[sources >= 0]] = width
    return widths[weights]


def _bound_by_inputs(
    problem: Problem,
    data: Data,
    free: FreeParameters,
    bounds: Bounds,
    is_given: np.ndarray,
) -> None:
    """Lower the upper bounds of delays through which inputs are read, so that the
    inputs are known at all times.

    Bounds that the user gives must be covered; `is_given` [2, p] marks them."""
    if not any_inputs(problem):
        return
    leaves = jax.tree.leaves(problem.tau, is_leaf=is_delay)
    numbers = iter(array for array in free.arrays if array.role == DELAY)
    values, names = parameter_vector(problem), delay_names(problem.tau)
    # A delay that is computed has no bounds: where an input is not known, the sum of
    # squares is no number.
    shortest, longest = np.full((2, len(leaves)), np.nan)
    for q, leaf in enumerate(leaves):
        if is_delay(leaf):
            continue
        array = next(numbers)
        j = free.source[array.first]
        if j < 0:
            shortest[q] = longest[q] = values[array.first]
            continue
        limit = earliest_known(problem, q)
        if limit is not None and not is_given[1, j]:
            if limit > 2 * max(usual_delays(data)[0], bounds.lower[j]):
                bounds.upper[j] = min(bounds.upper[j], limit)
        shortest[q], longest[q] = bounds.lower[j], bounds.upper[j]
    advice = [f"give {name} a lower upper bound {wording.BOUNDS}" for name in names]
    check_covered(problem, data.T, shortest, longest, advice)


def _bound_doses(
    problem: Problem, data: Data, free: FreeParameters, bounds: Bounds
) -> None:
    """Keep doses in the record: set missing bounds of times and durations."""
    doses = problem.doses
    if doses is None:
        return
    check_dose_times(doses, data.T)
    for event in doses.events:
        for quantity in (event.times, event.duration):
            if quantity is None or quantity.name is None:
                continue
            name = f"doses.values.{quantity.name}"
            array = next(each for each in free.arrays if each.name == name)
            j = free.source[array.first]
            if j >= 0:
                least = 0.0 if quantity is event.times else 1e-3 * data.T
                bounds.fill(j, least, data.T)


def make_setup(
    problem: Problem,
    data: Data,
    parameters: Mapping[str, Any] | None,
    solver: AbstractIntegrator,
    steps_per_delay: int,
    seed: int = 0,
    workers: int | None = None,
) -> tuple[FitSetup, Problem]:
    """Make the setup of a fit, and fill in the fixed parameters of the problem.

    `parameters` are the user's settings by name: start values, bounds, priors, or what
    is fixed. `workers` is the number of threads, by default that of the cores."""
    free, problem, _ = free_parameters(problem, parameters, seed=seed, partial=True)
    if not free.names:
        raise ValueError("Every parameter is fixed: there is nothing to learn.")
    start = parameter_vector(problem)
    guess = np.array([start[free.source.index(j)] for j in range(len(free.names))])
    bounds = Bounds(np.array(free.lower), np.array(free.upper), guess)
    lower, upper = bounds.lower, bounds.upper
    is_given = np.isfinite([lower, upper])
    is_history = np.array([path.startswith("history.") for path in free.paths])
    fields = tuple(f"history.{field}" for field in frequency_fields(problem.history))
    # An element of a vector has an index behind the name: `history.omega[1]`.
    is_frequency = np.array([path.split("[")[0] in fields for path in free.paths])
    for j in np.flatnonzero(is_frequency).tolist():
        bound_frequency(data, bounds, j)
    for j in free.delays:
        bound_delay(data, bounds, j, free.names[j])
    _bound_by_inputs(problem, data, free, bounds, is_given)
    _bound_doses(problem, data, free, bounds)
    for j, usual in free.shapes.items():
        bound_shape(bounds, j, usual)
    bound_noise(problem, data, free, bounds)
    is_inside = (lower <= guess) & (guess <= upper)
    guess = np.where(is_inside, guess, np.nan)
    priors = _priors(parameters, free, weights_of(problem, free.names))
    # Levenberg-Marquardt enforces the bounds itself, on untransformed values. Here they
    # are left out: the model is a constant of the compiled programs, which fits with
    # other bounds can then use as well.
    free = replace(free, lower=(-np.inf,) * len(lower), upper=(np.inf,) * len(lower))
    learned, fixed = free.split(problem)
    shortest = shortest_delay(problem, free, lower)
    model = LeastSquaresModel(
        free,
        learned,
        fixed,
        priors,
        problem.dimension,
        choose_misfit(problem, data, free),
        fit_engine(without_doses(problem), solver, data.T, shortest),
    )
    setup = FitSetup(
        model,
        data,
        lower,
        upper,
        guess,
        steps_per_delay,
        is_history,
        is_frequency,
        is_given,
        workers or cores(),
        JointParameters.alone(free),
    )
    return setup, problem


def choose_misfit(problem: Problem, data: Data, free: FreeParameters) -> AbstractMisfit:
    """Choose what a fit makes small: the likelihood of noise that has models, or the
    sum of squares."""
    if problem.noise is None:
        return Squares.of(len(free.names))
    return Likelihood.of(problem, data, free)


def shortest_delay(problem: Problem, free: FreeParameters, lower: np.ndarray) -> float:
    """Return the shortest possible delay: the lower bound of a learned one, or the
    value of a fixed one. One that is computed has no lower bound: it may be short."""
    if any(map(is_delay, jax.tree.leaves(problem.tau, is_leaf=is_delay))):
        return 0.0
    values = parameter_vector(problem)
    numbers = [array.first for array in free.arrays if array.is_delay]
    pairs = [(e, free.source[e]) for e in numbers]
    return min(float(lower[j] if j >= 0 else values[e]) for e, j in pairs)


def _priors(
    parameters: Mapping[str, Any] | None, free: FreeParameters, weights: list[int]
) -> Priors | None:
    """Return the priors of the free values, None if there are none. The `weights` of
    networks have a Gaussian one of zero mean, unless the user gives another."""
    given = {
        key: parameter.prior
        for key, parameter in (parameters or {}).items()
        if isinstance(parameter, Parameter) and parameter.prior is not None
    }
    if not given and not weights:
        return None
    size = len(free.names)
    mean, weight, log = np.zeros(size), np.zeros(size), np.zeros(size, bool)
    weight[weights] = weight_widths(free, weights) ** -2
    for key, prior in given.items():
        for element in find(key, list(free.arrays)):
            j = free.source[element]
            if j < 0:
                raise ValueError(
                    f"{wording.setting(key)} is fixed, so that its prior has no "
                    "effect. Remove the prior, or let the parameter be learned."
                )
            if prior.is_log and free.lower[j] < 0 and j not in free.delays:
                raise ValueError(
                    f"{wording.setting(key)}: a log-normal prior is for positive "
                    f"values. Add {wording.positive(key)}."
                )
            mean[j], weight[j], log[j] = prior.center, prior.width**-2.0, prior.is_log
    return Priors(mean, weight, log)


def make_study_setup(
    problems: Sequence[Problem],
    data: StudyData,
    parameters: Mapping[str, Any] | None,
    values: Sequence[Mapping[str, Any]],
    solver: AbstractIntegrator,
    steps_per_delay: int,
    seed: int = 0,
    workers: int | None = None,
) -> tuple[FitSetup, tuple[Problem, ...]]:
    """Make the setup of a study, and fill in the fixed parameters of its problems.

    `problems` are those of the experiments, and `values` the parameters that are known
    in each, by name. A name in `parameters` stands for the parameter in all
    experiments, or with a label for that of one: `b@low`."""
    settings = _local_settings(dict(parameters or {}), data.labels)
    everywhere = [
        name for name in values[0] if all(name in each for each in values[1:])
    ]
    how, made = (solver, steps_per_delay, seed, workers), []
    for problem, given, part, known in zip(problems, settings, data.parts, values):
        fixed = {name: Fixed(known[name]) for name in everywhere}
        made.append(make_setup(problem, part, {**given, **fixed}, *how))
    setups, filled = zip(*made)
    local = setups[0].model.free
    known = [
        _known_values(local, each, everywhere, label)
        for each, label in zip(values, data.labels)
    ]
    is_own = _is_own(local, settings[0])
    _check_labelled(local, parameters or {}, is_own)
    joint = joint_parameters(local, data.labels, is_own, known)
    return joined_setup(setups, filled, joint, data), filled


def _local_settings(
    settings: dict[str, Any], labels: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the settings for each experiment, with those that name its label."""
    common = {key: each for key, each in settings.items() if "@" not in str(key)}
    found: list[dict[str, Any]] = [dict(common) for _ in labels]
    for key, setting in settings.items():
        if key in common:
            continue
        name, _, label = key.rpartition("@")
        if label not in labels:
            raise ValueError(
                f"{wording.setting(key)}: there is no experiment {label!r}. The "
                f"experiments are {', '.join(labels)}."
            )
        if not isinstance(setting, Parameter | int | float):
            raise ValueError(
                f"{wording.setting(key)} must be a Parameter or a number to start "
                "from. A value that is known in one experiment is one of the `values` "
                "of this `dd.Experiment`."
            )
        found[labels.index(label)][name] = setting
    return found


def _known_values(
    local: FreeParameters,
    values: Mapping[str, Any],
    everywhere: Sequence[str],
    label: str,
) -> dict[int, float]:
    """Return the free values that are known in one experiment only, by number."""
    known = {}
    for name, value in values.items():
        if name in everywhere:
            continue
        for element in find(name, list(local.arrays)):
            source = local.source[element]
            if source < 0:
                raise ValueError(
                    f"The experiment {label!r} gives the value of `{name}`, which is "
                    "fixed. Leave it out of `values`, or do not fix it."
                )
            known[source] = float(value)
    return known


def _is_own(local: FreeParameters, settings: Mapping[str, Any]) -> list[bool]:
    """Whether every experiment has its own, for each free value."""
    is_own = [is_own_by_default(path) for path in local.paths]
    for key, setting in settings.items():
        if not isinstance(setting, Parameter) or setting.per_experiment is None:
            continue
        for element in find(key, list(local.arrays)):
            if local.source[element] >= 0:
                is_own[local.source[element]] = bool(setting.per_experiment)
    return is_own


def _check_labelled(
    local: FreeParameters, parameters: Mapping[str, Any], is_own: Sequence[bool]
) -> None:
    """Refuse a setting for one experiment of a parameter that all of them share."""
    for key in parameters:
        name, at, _ = str(key).rpartition("@")
        for element in find(name, list(local.arrays)) if at else ():
            source = local.source[element]
            if source >= 0 and not is_own[source]:
                raise ValueError(
                    f"{wording.setting(key)}: all experiments share `{name}`. Give "
                    f"each its own by {wording.per_experiment(name)}."
                )


def joined_setup(
    setups: Sequence[FitSetup],
    problems: Sequence[Problem],
    joint: JointParameters,
    data: StudyData,
) -> FitSetup:
    """Join the setups of the experiments of a study. Where default bounds of a shared
    value differ between experiments, the widest ones count."""
    p, first = len(joint.free.names), setups[0]
    lower, upper = np.full(p, np.inf), np.full(p, -np.inf)
    guess = np.full(p, np.nan)
    is_history, is_frequency = np.zeros(p, bool), np.zeros(p, bool)
    is_given = np.zeros((2, p), bool)
    for setup, place in zip(setups, joint.place):
        local = np.flatnonzero(place >= 0)
        j = place[local]
        lower[j] = np.minimum(lower[j], setup.lower[local])
        upper[j] = np.maximum(upper[j], setup.upper[local])
        guess[j] = np.where(np.isnan(guess[j]), setup.guess[local], guess[j])
        is_history[j] = setup.is_history[local]
        is_frequency[j] = setup.is_frequency[local]
        is_given[:, j] = setup.is_given[:, local]
    experiments = Experiments(
        first.model.free,
        stack([setup.model.learned for setup in setups]),
        stack([setup.model.fixed for setup in setups]),
        joint.selection,
        joint.known,
        data.rows,
        np.array([part.T for part in data.parts]),
    )
    model = replace(
        first.model,
        free=joint.free,
        priors=_joint_priors([setup.model.priors for setup in setups], joint),
        engine=study_engine(
            [setup.model.engine for setup in setups],
            [without_doses(problem) for problem in problems],
            np.array([part.T for part in data.parts]),
        ),
        misfit=first.misfit.joined(
            [setup.misfit for setup in setups[1:]], joint.free, data
        ),
        experiments=experiments,
    )
    return replace(
        first,
        model=model,
        data=data,
        lower=lower,
        upper=upper,
        guess=guess,
        is_history=is_history,
        is_frequency=is_frequency,
        is_given=is_given,
        joint=joint,
    )


def _joint_priors(
    priors: Sequence[Priors | None], joint: JointParameters
) -> Priors | None:
    """Return the priors of the joint values."""
    p = len(joint.free.names)
    mean, weight, log = np.zeros(p), np.zeros(p), np.zeros(p, bool)
    for prior, place in zip(priors, joint.place):
        if prior is None:
            continue
        local = np.flatnonzero(place >= 0)
        j = place[local]
        mean[j], weight[j], log[j] = (np.asarray(each)[local] for each in prior)
    return Priors(mean, weight, log) if np.any(weight > 0) else None
