"""The tasks of `fit` and `fit_many`, read from their arguments.

A model is a `Problem`, an `Equation`, or a function alone; the options of a fit may
give it inputs, networks, doses and a noise model. The data get the columns that the
model observes, with times that begin where the history ends, and networks get their
scales."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from .._data.data import Data, DataStack
from .._data.study_data import Experiment, Records, StudyData, parts_of
from .._equation.equation import Equation
from .._equation.history_kinds import CHOSEN_BY_FIT, blank_history
from .._equation.problem_text import equation_of
from .._problem.doses import make_doses
from .._problem.driving import with_same_tables
from .._problem.history import KINDS, Smooth
from .._problem.network import networks_in
from .._problem.parameters import (
    Fixed,
    finite_numbers,
    parameter_arrays,
    parameter_vector,
    with_values,
)
from .._problem.problem import Problem, with_noise, with_parts
from .._util import wording
from .._util.errors import DataError, check_instance, did_you_mean, quoted, shown
from ..noise._gaussian import Gaussian
from ..noise._read_noise import read_noise, with_given
from .request import FitOptions, FitTask, FitTasks
from .scaled_networks import scaled_together

# What `fit` fits: a callable object is a right-hand side alone.
Model: TypeAlias = Problem | Equation | Callable[..., Any]
# The arguments of `fit_many`: one for all fits, or one for each.
Problems: TypeAlias = Model | Sequence[Problem]
DataSets: TypeAlias = Data | Sequence[Data]
Starts: TypeAlias = int | Sequence[Mapping[str, float]] | None


def one_task(model: Model, data: Data, given: FitOptions) -> FitTask:
    """Return the task of a whole model, with a history that is known."""
    problem, equation = _problem_of_model(model, data, given), _equation_of_model(model)
    return _task([problem], matched_data(problem, equation, data), [equation], given)


def read_experiments(data: Any) -> list[Experiment] | None:
    """Return the experiments of a study; None if `data` is one data set, or no list.

    A list of data sets is refused: it may stand for two things."""
    if isinstance(data, Experiment):
        return [data]
    if isinstance(data, Data) or not isinstance(data, Sequence | dict):
        return None
    given = list(data)
    has_any = any(isinstance(each, Data | Experiment) for each in given)
    if isinstance(data, dict) or not has_any:
        raise TypeError(
            "`data` must be a `Data`, or a list of `Experiment`s, but got "
            f"{shown(data)}."
        )
    if all(isinstance(each, Data) for each in given):
        raise TypeError(
            "`data` is a list of data sets. To fit them together, as one study with "
            "shared parameters, make experiments of them: `dd.fit(model, "
            "[dd.Experiment(each) for each in data])`. To fit each by itself, call "
            "`dd.fit_many(model, data)`."
        )
    for each in given:
        if not isinstance(each, Experiment):
            raise TypeError(
                "`data` must be a `Data`, or a list of `Experiment`s, but one of its "
                f"items is {shown(each)}."
            )
    return given


def labels_of(experiments: Sequence[Experiment]) -> tuple[str, ...]:
    """Return the labels of the experiments of a study, or their numbers."""
    labels = tuple(
        str(number) if each.label is None else each.label
        for number, each in enumerate(experiments, start=1)
    )
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(
                f"Two experiments have the label {quoted(label)}. Give each a label of "
                "its own: `dd.Experiment(data, label='low')`."
            )
    return labels


def study_task(
    model: Model, experiments: Sequence[Experiment], given: FitOptions
) -> FitTask:
    """Return the task of several experiments, or of a single one."""
    models = [
        _with_given_history(_with_own_parts(model, each, given, label), given.history)
        for each, label in zip(experiments, labels_of(experiments))
    ]
    if kind := kind_from_data(models[0]):
        raise ValueError(
            f"{wording.history(kind)} is for one data set. Choose another history for "
            "a study, such as `affine`."
        )
    problems = [
        _problem_of_model(m, e.data, given) for m, e in zip(models, experiments)
    ]
    equations = [_equation_of_model(each) for each in models]
    problems, data = joined(experiments, problems, equations)
    task = _task(problems, data, equations, given)
    known = tuple(dict(each.values or {}) for each in experiments)
    if len(experiments) > 1:
        return replace(task, known=known)
    fixed = {name: Fixed(value) for name, value in known[0].items()}
    settings = {**(task.parameters or {}), **fixed}
    return replace(task, data=data.parts[0], parameters=settings)


def joined(
    experiments: Sequence[Experiment],
    problems: Sequence[Problem],
    equations: Sequence[Equation | None],
) -> tuple[list[Problem], StudyData]:
    """Return the problems of several experiments, made alike, and their data, with the
    quantities that the equations observe."""
    labels, parts = labels_of(experiments), []
    for each, problem, equation in zip(experiments, problems, equations):
        if isinstance(problem.history, Smooth):
            raise ValueError(
                f"{wording.history('spline')} is for one data set. Choose another "
                "history for a study, such as `affine`."
            )
        parts.append(matched_data(problem, equation, each.data))
    for part, label in zip(parts, labels):
        if part.names != parts[0].names:
            raise ValueError(
                f"The quantities of {label!r} are {', '.join(part.names)}, those of "
                f"{labels[0]!r} are {', '.join(parts[0].names)}. Give all experiments "
                "the same columns, with NaN for what was not measured."
            )
    data = StudyData(tuple(parts), labels)
    return with_same_tables(problems, data.T), data


def _task(
    problems: Sequence[Problem],
    data: Records,
    equations: Sequence[Equation | None],
    given: FitOptions,
) -> FitTask:
    """Return the task of problems and their data, with noise and scales of networks,
    and with the settings that the equations imply."""
    parts, settings = parts_of(data), given.parameters
    noisy = [with_noise_of(problem, data, given.noise) for problem in problems]
    scaled = scaled_together(noisy, parts) if _lacks_scales(noisy[0]) else noisy
    texts = tuple(each for each in equations if each is not None)
    for equation in texts:
        settings = _settings(equation, parts[0], settings)
    return FitTask(tuple(scaled), data, settings, given.seed, texts)


def _lacks_scales(problem: Problem) -> bool:
    """Whether there are networks that need scales from data."""
    return not all(network.has_scales for network in networks_in(problem))


def many_tasks(
    problem: Problems, data: DataSets, starts: Starts, given: FitOptions
) -> FitTasks:
    """Return the tasks of `fit_many`."""
    problems, sets, own_starts = _given_once_or_for_each(problem, data, starts)
    problems = [whole_model(each, given) for each in problems]
    if kind := kind_from_data(problems[0]):
        raise ValueError(
            f'`history="{kind}"` depends on the data, but `fit_many` fits one model to '
            "all of them. Call `dd.fit` for each data set, or choose a history."
        )
    _check_one_equation(problems)
    equation = _equation_of_model(problems[0])
    models = [_problem_of_model(each, sets[0], given) for each in problems]
    matched = _matched(models, equation, sets)
    is_plain = given.noise is None and all(model.noise is None for model in models)
    if not (is_plain and isinstance(matched, DataStack)):
        pairs = _pairs(models, matched)
        noisy = [with_noise_of(m, each, given.noise) for m, each in pairs]
        # Without noise models the problems stay shared by many fits.
        if any(new is not old for new, (old, _) in zip(noisy, pairs)):
            models = noisy
    if _lacks_scales(models[0]):
        models = scaled_together(*map(list, zip(*_pairs(models, matched))))
    settings = _settings(equation, matched[0], given.parameters)
    return FitTasks(models, matched, own_starts, given.seed, equation, settings)


def kind_from_data(model: Any) -> str | None:
    """Return the kind of history of a text, if only data can settle it."""
    history = model.history if isinstance(model, Equation) else None
    is_chosen = isinstance(history, str) and history in CHOSEN_BY_FIT
    return history if is_chosen else None


def whole_model(model: Any, options: FitOptions) -> Any:
    """Return the model with the inputs, networks, doses and history of the options."""
    return _with_given_history(_with_given_parts(model, options), options.history)


def _with_given_history(model: Any, history: Any) -> Any:
    """Return the model with this history. A function alone gets it when the data show
    how many states there are."""
    if history is not None and isinstance(model, Problem):
        raise ValueError(
            "`history` replaces that of an `Equation`; a `Problem` has its own."
        )
    if history is None or not isinstance(model, Equation):
        return model
    return model.with_history(history)


def _with_given_parts(model: Any, options: FitOptions) -> Any:
    """Return the model with the inputs, networks and doses of the options."""
    if options.inputs is not None:
        if not isinstance(model, Equation):
            raise ValueError(
                "`inputs` are those of an `Equation`; a `Problem` has its own, as "
                "fields of its modules or as defaults of its functions."
            )
        model = model.with_inputs(options.inputs)
    if options.networks is not None:
        if not isinstance(model, Equation):
            raise ValueError(
                "`networks` are those of an `Equation`, `NN(...)`; a `Problem` has its "
                "own."
            )
        model = model.with_networks(options.networks)
    if options.doses is None:
        return model
    if isinstance(model, Equation):
        return model.with_doses(options.doses)
    if not isinstance(model, Problem):
        raise ValueError("`doses` are for an `Equation` or a `Problem`.")
    has_initial = model.initial is not None
    doses = make_doses(options.doses, model.dimension, has_initial)
    return with_parts(model, doses=doses)


def _with_own_parts(
    model: Any, experiment: Experiment, given: FitOptions, label: str
) -> Any:
    """Return the model with the inputs and doses of one experiment beside those of
    all."""
    inputs = {**(given.inputs or {}), **(experiment.inputs or {})}
    doses = [*(given.doses or ()), *experiment.doses]
    own = replace(given, inputs=inputs or None, doses=doses or None)
    try:
        return _with_given_parts(model, own)
    except (TypeError, ValueError) as error:
        raise type(error)(f"Experiment {quoted(label)}: {error}") from None


def _problem_of_model(problem: Model, data: Data, options: FitOptions) -> Problem:
    """Return the problem to fit."""
    check_instance("data", data, Data, "Data(t, x)")
    if isinstance(problem, Equation):
        return problem.blank
    if callable(problem) and not isinstance(problem, type):
        return _problem_of_function(problem, data, options.history)
    if isinstance(problem, str):
        raise TypeError(
            "`problem` is a text. Make an equation of it: "
            f"`dd.fit(dd.equation({quoted(problem)}), data)`."
        )
    if isinstance(problem, type):
        name = problem.__name__
        raise TypeError(f"`problem` is the class `{name}`. Call it: `{name}(...)`.")
    check_instance("problem", problem, Problem, "Problem(rhs, history, tau)")
    assert isinstance(problem, Problem)
    return problem


def _equation_of_model(problem: Model) -> Equation | None:
    """Return the text equation that a problem is or was made from, if any."""
    if isinstance(problem, Equation):
        return problem
    return equation_of(problem) if isinstance(problem, Problem) else None


def _settings(
    equation: Equation | None, data: Data, given: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return the ties of an equation and a delay that it gives, with the given settings
    of the parameters."""
    if equation is None:
        return given
    settings: dict[str, Any] = dict(equation.settings)
    if not equation.needs_tau:
        # Without a delay only the solver's steps depend on tau.
        settings["tau"] = Fixed(data.T / 10)
    return {**settings, **(given or {})}


# Data that begin after more lengths of the record than this are far from time zero.
_FAR = 20.0


def matched_data(problem: Problem, equation: Equation | None, data: Data) -> Data:
    """Return the data with a column for each quantity that an equation observes.

    Times are counted from the first one if they begin later than one length of the
    record, and the equation is the same at all times: the history is meant to end where
    the data begin. If the equation depends on time, data that begin far from zero are
    refused."""
    check_instance("data", data, Data, "Data(t, x)")
    if equation is not None:
        _check_names(equation, data)
        data = data.select(equation.observed)
    first, length = float(data.t[0]), float(data.T - data.t[0])
    if len(data) < 2 or first <= length:
        return data
    if problem.is_autonomous:
        return data.from_first_time()
    if first > _FAR * length:
        raise ValueError(
            f"The first measurement is at t = {first:.6g}, but the history ends at "
            "time 0: the equation would have to be solved over "
            f"{first / length:.0f} lengths of the record before there is anything to "
            f"compare. {wording.later_time_zero(f'{first:.15g}')}, and write "
            f"t + {first:.15g} for t in the equation."
        )
    return data


def _check_names(equation: Equation, data: Data) -> None:
    """Refuse a single column that has the name of a state but would be taken for
    another quantity, which is computed from the states."""
    (name, *others), observed = data.names, equation.observed
    is_renamed = not others and len(observed) == 1 and name not in observed
    if not (is_renamed and data.has_given_names and name in equation.states):
        return
    raise DataError(
        f"Column {quoted(name)} has the name of a state, but the model observes "
        f"{quoted(observed[0])}. Name the column {quoted(observed[0])} if it holds "
        "that, and transform its values first if it does not."
    )


def _problem_of_function(rhs: Callable[..., Any], data: Data, history: Any) -> Problem:
    """Return the problem of a right-hand side `rhs(x, y, tau, t)` alone, with one delay
    and a state for each column of the data. Their start values are unknown.

    >>> data = Data([0.0, 1.0, 2.0], [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]])
    >>> _problem_of_function(lambda x, y, tau, t, k=1.0: -k * y, data, None).dimension
    2
    """
    d = len(data.names)
    past = blank_history(_read_history(history, d), d)
    # The delay is 1 until the problem is checked.
    problem = Problem(rhs, past, tau=1.0)
    values = parameter_vector(problem)
    values[[a.first for a in parameter_arrays(problem) if a.is_delay]] = np.nan
    return with_values(problem, values)


def _read_history(history: Any, d: int) -> Any:
    """Return the argument `history` as a kind, numbers or a history."""
    if history is None:
        return "constant"
    if isinstance(history, str) and history in CHOSEN_BY_FIT:
        raise ValueError(
            f'`history="{history}"` is for models that are texts, `dd.equation(...)`. '
            f"For a function choose one of {', '.join(KINDS)}, or give a history, as "
            "`dd.Affine(a=1.0, b=2.0)`."
        )
    if isinstance(history, str) and history not in KINDS:
        raise ValueError(
            f"There is no history {history!r}.{did_you_mean(history, KINDS)}"
        )
    if isinstance(history, str) or callable(history):
        return history
    return tuple(finite_numbers("history", history, d).tolist())


def with_noise_of(problem: Problem, data: Records, noise: Any) -> Problem:
    """Return the problem with the noise that the argument names, or else its own.

    Without either, the noise is Gaussian: least squares finds it, unless some values
    are only known to be below a limit."""
    given = problem.noise if noise is None else noise
    if given is None and data.below is None:
        return problem
    models = read_noise(Gaussian() if given is None else given, data.names)
    below = np.zeros(data.x.shape, bool) if data.below is None else data.below
    for column, name in enumerate(data.names):
        here = np.isfinite(data.x[:, column])
        if here.any() and np.all(below[here, column]):
            raise DataError(
                f"All values of {quoted(name)} are below a limit: they say nothing but "
                "that. Leave this quantity out."
            )
    return with_noise(problem, with_given(models, data.names, data.x, data.sd, below))


def _given_once_or_for_each(
    problem: Problems, data: DataSets, starts: Starts
) -> tuple[list[Any], Sequence[Any], Sequence[Mapping[str, float]]]:
    """Return problems, data sets and starts: one of each kind, or one for each fit."""
    if isinstance(problem, Problem | Equation | str) or callable(problem):
        problems: list[Any] = [problem]
    else:
        problems = list(problem)
    if isinstance(data, DataStack):
        sets: Sequence[Any] = data
    else:
        sets = [data] if isinstance(data, Data) else list(data)
    for name, items in {"problem": problems, "data": sets}.items():
        if not len(items):
            raise ValueError(f"`{name}` is empty: there is nothing to fit.")
    if isinstance(starts, bool) or (isinstance(starts, int) and starts < 1):
        raise ValueError(
            "`starts` must be a number of fits from 1 on, or start values by name for "
            f"each fit, but got {starts!r}."
        )
    if starts is None or isinstance(starts, int):
        starts = [{}] * (starts or 1)
    sizes = {"problem": len(problems), "data": len(sets), "starts": len(starts)}
    fits = max(sizes.values())
    for name, size in sizes.items():
        if size < 1 or size not in (1, fits):
            listed = ", ".join(f"{n}: {s}" for n, s in sizes.items())
            raise ValueError(
                f"Give one or {fits} for `{name}`, as for the others ({listed})."
            )
    return problems, sets, list(starts)


def _check_one_equation(problems: Sequence[Any]) -> None:
    """Refuse text equations that differ."""
    texts = {id(each): str(each) for each in problems if isinstance(each, Equation)}
    if len(set(texts.values())) > 1 or 0 < len(texts) < len({*map(id, problems)}):
        raise ValueError(
            "`problem` has different equations. Fit one of them at a time: `fit_many` "
            "fits one equation to many data sets."
        )


def _pairs(models: Sequence[Problem], sets: Sequence[Data]) -> list:
    """Pair a model and a data set for each of the fits in which they differ."""
    count = max(len(models), len(sets))
    return [
        (models[i if len(models) > 1 else 0], sets[i if len(sets) > 1 else 0])
        for i in range(count)
    ]


def _matched(
    models: Sequence[Problem], equation: Equation | None, sets: Sequence[Data]
) -> Sequence[Data]:
    """Return the data as the fits need them (see `matched_data`)."""
    if not isinstance(sets, DataStack):
        return [matched_data(model, equation, d) for model, d in _pairs(models, sets)]
    first = matched_data(models[0], equation, sets[0])
    if equation is not None:
        sets = _selected(sets, first.names)
    begin = sets.t[:, 0]
    is_late = begin > sets.T - begin
    if not is_late.any():
        return sets
    if not models[0].is_autonomous:
        for index in np.flatnonzero(is_late):
            matched_data(models[0], None, sets[int(index)])
        return sets
    moved = sets.t - np.where(is_late, begin, 0.0)[:, None]
    return replace(sets, t=moved)


def _selected(stack: DataStack, names: tuple[str, ...]) -> DataStack:
    """Return the stack with these quantities, which `Data.select` has accepted."""
    if len(names) == len(stack.names) and set(names).isdisjoint(stack.names):
        order = list(range(len(names)))
    else:
        order = [stack.names.index(n) if n in stack.names else -1 for n in names]
    keeps_all = order == list(range(len(stack.names)))

    def picked(array: np.ndarray | None) -> Any:
        if array is None or keeps_all:
            return array
        wide = np.concatenate([array, np.full_like(array[..., :1], np.nan)], axis=2)
        return wide[..., order]

    x, sd = picked(stack.x), picked(stack.sd)
    return replace(stack, x=x, sd=sd, names=names, has_given_names=True)
