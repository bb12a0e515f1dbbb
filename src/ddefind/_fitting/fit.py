"""`fit` and `fit_many`: they read their arguments and hand them to a method.

The tasks of `fit_many`: a problem, a data set and start values for each fit."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, Unpack, overload

import numpy as np

from .._data.data import Data
from .._data.stack import DataStack
from .._equation.equation import Equation
from .._problem.network import networks_in
from .._problem.parameters import Fixed
from .._problem.problem import Problem
from .._results.batch import FitBatch
from .._results.estimate import Estimate
from .._results.result import FitResult
from .._util import wording
from .._util.errors import check_instance
from .fit_options import ALL_FITS, DESCENT, SWEEPS, with_options_listed
from .least_squares import LeastSquares, with_noise_of
from .method import AbstractMethod
from .multiple_shooting import MultipleShooting
from .one_data_set import chosen_method, depends_on_data, fit_one
from .optimizers import AbstractOptimizer
from .read_model import (
    Model,
    equation_of_model,
    problem_of_model,
    with_given,
    with_own,
    with_settings_of,
)
from .request import (
    FitKeywords,
    FitOptions,
    FitTask,
    FitTasks,
    LeastSquaresKeywords,
    read_options,
)
from .scaled_networks import scaled_together
from .study import Experiment, labels_of, make_study, matched_data, read_experiments
from .sweep import LeastSquaresSweepKeywords, SweepFitKeywords, SweepOptions, fit_sweep

# The arguments of `fit_many`: one for all fits, or one for each.
Problems: TypeAlias = Model | Sequence[Problem]
DataSets: TypeAlias = Data | Sequence[Data]
Starts: TypeAlias = int | Sequence[Mapping[str, float]] | None


def make_tasks(
    problem: Problems, data: DataSets, starts: Starts, given: FitOptions
) -> tuple[FitTasks, FitOptions]:
    """The tasks, and the options with what an equation knows of its parameters."""
    problems, sets, own_starts = _given_once_or_for_each(problem, data, starts)
    problems = [with_given(each, given) for each in problems]
    first = problems[0]
    if isinstance(first, Equation) and (kind := depends_on_data(first, given)):
        raise ValueError(
            f'`history="{kind}"` depends on the data, but `fit_many` fits one model to '
            "all of them. Call `dd.fit` for each data set, or choose a history."
        )
    _check_one_equation(problems)
    equation = equation_of_model(first, given)
    models = [problem_of_model(each, sets[0], given) for each in problems]
    matched = _matched(models, equation, sets)
    is_plain = given.noise is None and all(model.noise is None for model in models)
    if not (is_plain and isinstance(matched, DataStack)):
        pairs = _pairs(models, matched)
        noisy = [with_noise_of(m, each, given.noise) for m, each in pairs]
        if any(new is not old for new, (old, _) in zip(noisy, pairs)):
            models = noisy
    if not all(network.has_scales for network in networks_in(models[0])):
        models = scaled_together(*map(list, zip(*_pairs(models, matched))))
    given = with_settings_of(equation, matched[0], given)
    return FitTasks(models, matched, own_starts, given.seed, equation), given


def _pairs(models: Sequence[Problem], sets: Sequence[Data]) -> list:
    """A model and a data set for each of the fits in which they differ."""
    count = max(len(models), len(sets))
    return [
        (models[i if len(models) > 1 else 0], sets[i if len(sets) > 1 else 0])
        for i in range(count)
    ]


def _matched(
    models: Sequence[Problem], equation: Equation | None, sets: Sequence[Data]
) -> Sequence[Data]:
    """The data as the fits need them (see `matched_data.py`)."""
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
    return sets.with_arrays(moved, sets.x, sets.sd)


def _selected(stack: DataStack, names: tuple[str, ...]) -> DataStack:
    """The stack with these quantities, which `Data.select` has accepted."""
    if len(names) == len(stack.names) and set(names).isdisjoint(stack.names):
        order = list(range(len(names)))
    else:
        order = [stack.names.index(n) if n in stack.names else -1 for n in names]
    if order == list(range(len(stack.names))):
        changes: dict[str, Any] = {"names": names, "has_given_names": True}
        return stack.with_arrays(stack.t, stack.x, stack.sd, **changes)

    def picked(array: np.ndarray) -> np.ndarray:
        wide = np.concatenate([array, np.full_like(array[..., :1], np.nan)], axis=2)
        return wide[..., order]

    return stack.with_arrays(
        stack.t,
        picked(stack.x),
        None if stack.sd is None else picked(stack.sd),
        names=names,
        has_given_names=True,
    )


def _given_once_or_for_each(
    problem: Problems, data: DataSets, starts: Starts
) -> tuple[list[Any], Sequence[Any], Sequence[Mapping[str, float]]]:
    """Problems, data sets and starts: one of each kind, or one for each fit."""
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
    own: Sequence[Mapping[str, float]]
    if isinstance(starts, bool) or (isinstance(starts, int) and starts < 1):
        raise ValueError(
            "`starts` must be a number of fits from 1 on, or start values by name for "
            f"each fit, but got {starts!r}."
        )
    if starts is None or isinstance(starts, int):
        own, count = [{}], starts or 1
    else:
        own, count = list(starts), len(starts)
    sizes = {"problem": len(problems), "data": len(sets), "starts": count}
    fits = max(sizes.values())
    for name, size in sizes.items():
        if size < 1 or size not in (1, fits):
            shown = ", ".join(f"{n}: {s}" for n, s in sizes.items())
            raise ValueError(
                f"Give one or {fits} for `{name}`, as for the others ({shown})."
            )
    return problems, sets, own * fits if count > 1 and len(own) == 1 else own


def _check_one_equation(problems: Sequence[Any]) -> None:
    """Refuse text equations that differ."""
    texts = {id(each): str(each) for each in problems if isinstance(each, Equation)}
    if len(set(texts.values())) > 1 or 0 < len(texts) < len({*map(id, problems)}):
        raise ValueError(
            "`problem` has different equations. Fit one of them at a time: `fit_many` "
            "fits one equation to many data sets."
        )


# One data set, or the experiments of a study.
Measurements: TypeAlias = Data | Experiment | Sequence[Experiment]


@overload
def fit(
    problem: Model,
    data: Measurements,
    *,
    optimizer: LeastSquares | MultipleShooting,
    **options: Unpack[LeastSquaresKeywords],
) -> Estimate: ...
@overload
def fit(
    problem: Model,
    data: Measurements,
    *,
    optimizer: AbstractOptimizer,
    **options: Unpack[FitKeywords],
) -> FitResult: ...
@overload
def fit(
    problem: Equation,
    data: Measurements,
    *,
    optimizer: None = None,
    **options: Unpack[LeastSquaresKeywords],
) -> Estimate: ...
@overload
def fit(
    problem: Model,
    data: Measurements,
    *,
    optimizer: AbstractMethod | None = None,
    **options: Unpack[FitKeywords],
) -> Estimate | FitResult: ...
@with_options_listed(ALL_FITS, DESCENT)
def fit(
    problem: Model,
    data: Measurements,
    *,
    optimizer: AbstractMethod | None = None,
    **options: Unpack[FitKeywords],
) -> Any:
    """Learn a problem's parameters, delay and history from data.

    By default this is least squares from many starts, with the problem's own values
    among them, and the result is an `Estimate`. With more than 1500 parameters, another
    loss, or options of gradient descent it is Adam from the problem's own values, and
    the result is a `FitResult`.

    **Arguments**

    - `problem`: a `Problem`, or an `Equation`, which needs no values. The data's
      columns are matched by name to the states of a text, or to what it observes; data
      without names are in the order of the text. A function alone, as `def
      rhs(x, y, tau, t, r=1.0)`, is a right-hand side with the parameter `r`, one delay
      and a constant history.
    - `data`: the measurements. If they begin later than one length of the record after
      time zero, and the equation is the same at all times, times are counted from the
      first one. A list of `Experiment`s is a study: they are fitted together.
    - `optimizer`: the method: `LeastSquares()`, `MultipleShooting()` for systems that
      are themselves disturbed, `Adam()`, `RMSProp()`, `SGD()` or `LBFGS()`.
    {options}

    Only gradient descent has these:

    {descent}

    Interrupted by Ctrl-C, it returns the best fit so far. (Least squares has none
    before the end of its first phase; the interruption then goes on.)

    >>> import numpy as np
    >>> import ddefind as dd
    >>> truth = dd.Problem(dd.models.Exponential(-1.0, -0.5), dd.Constant(1.0), tau=1.0)
    >>> t = np.linspace(0, 5, 40)
    >>> start = dd.Problem(dd.models.Exponential(-0.7, -0.7), dd.Constant(0.8), tau=0.8)
    >>> found = dd.fit(start, dd.Data(t, dd.solve(truth, T=5)(t)), progress=False)
    >>> bool(found.loss < 1e-9)
    True
    """
    given = read_options("fit", options)
    experiments = read_experiments(data)
    if experiments is not None:
        return _fit_study(problem, experiments, optimizer, given)
    check_instance("data", data, Data, "Data(t, x)")
    assert isinstance(data, Data)
    problem = with_given(problem, given)
    return fit_one(problem, data, optimizer, given)


def _fit_study(
    problem: Model,
    experiments: Sequence[Experiment],
    optimizer: AbstractMethod | None,
    given: FitOptions,
) -> Any:
    """The joint fit of several experiments, or the fit of a single one."""
    if isinstance(problem, Equation) and (kind := depends_on_data(problem, given)):
        raise ValueError(
            f"{wording.history(kind)} is for one data set. Choose another history for "
            "a study, such as `affine`."
        )
    if not isinstance(optimizer, LeastSquares | None):
        raise ValueError(
            f"A study is fitted by least squares: leave out {wording.METHOD}."
        )
    models = [
        with_own(problem, each, given, label)
        for each, label in zip(experiments, labels_of(experiments))
    ]
    without = replace(given, inputs=None, doses=None, networks=None)
    study = make_study(
        experiments,
        [problem_of_model(m, e.data, without) for m, e in zip(models, experiments)],
        [equation_of_model(model, without) for model in models],
    )
    noisy = [with_noise_of(p, study.data, given.noise) for p in study.problems]
    scaled = scaled_together(noisy, study.data.parts)
    study = replace(study, problems=tuple(scaled))
    first = study.data.parts[0]
    equation = study.models[0] if study.models else None
    for model in study.models:
        given = with_settings_of(model, first, given)
    method = chosen_method(optimizer or LeastSquares(), study.problems[0], given)
    if len(experiments) == 1:
        known = {name: Fixed(value) for name, value in study.values[0].items()}
        given = replace(given, parameters={**(given.parameters or {}), **known})
        task = FitTask(study.problems[0], first, {}, given.seed, equation)
    else:
        task = FitTask(study.problems[0], first, {}, given.seed, equation, study)
    return method.fit(task, given)


@overload
def fit_many(
    problem: Problems,
    data: DataSets,
    *,
    starts: Starts = None,
    optimizer: LeastSquares | MultipleShooting,
    **options: Unpack[LeastSquaresSweepKeywords],
) -> FitBatch[Estimate]: ...
@overload
def fit_many(
    problem: Problems,
    data: DataSets,
    *,
    starts: Starts = None,
    optimizer: AbstractOptimizer,
    **options: Unpack[SweepFitKeywords],
) -> FitBatch[FitResult]: ...
@overload
def fit_many(
    problem: Equation,
    data: DataSets,
    *,
    starts: Starts = None,
    optimizer: None = None,
    **options: Unpack[LeastSquaresSweepKeywords],
) -> FitBatch[Estimate]: ...
@overload
def fit_many(
    problem: Problems,
    data: DataSets,
    *,
    starts: Starts = None,
    optimizer: AbstractMethod | None = None,
    **options: Unpack[SweepFitKeywords],
) -> FitBatch[Estimate] | FitBatch[FitResult]: ...
@with_options_listed(ALL_FITS, DESCENT, SWEEPS)
def fit_many(
    problem: Problems,
    data: DataSets,
    *,
    starts: Starts = None,
    optimizer: AbstractMethod | None = None,
    **options: Unpack[SweepFitKeywords],
) -> Any:
    """Many fits of one model at once: of many data sets, from many starts, or both.

    They run together, on all cores: gradient descent side by side in blocks that fill
    the vector units, least squares with the searches of many data sets at a time. A fit
    is a function of its data and its seed, which is `seed` plus its number, whatever
    else is fitted; it ends where it would alone, to rounding. (The intervals of `fit`
    may find a better minimum, which it then takes: compare with `intervals=False`.)

    **Arguments**, where they differ from those of `fit`:

    - `problem`: one for all fits, or one for each, all of the same shape, with
      different start values.
    - `data`: one data set for all fits, or one for each, as a list or as
      `Data.stack(...)`; their times may differ.
    - `starts`: start values by name for each fit, or a number of fits, each with random
      starts of its own (see `Parameter`).
    - `intervals`: by default there are none; True computes them for every fit.
    {sweeps}

    With `executor` or `folder`, a fit that cannot be made has the status `error`, and
    all others are made.

    >>> import numpy as np
    >>> import ddefind as dd
    >>> truth = dd.Problem(dd.models.Exponential(-1.0, -0.5), dd.Constant(1.0), tau=1.0)
    >>> t = np.linspace(0, 5, 40)
    >>> x = np.asarray(dd.solve(truth, T=5)(t))
    >>> noise = 0.01 * np.random.default_rng(0).normal(size=(3, 40, 1))
    >>> sets = [dd.Data(t, x + e) for e in noise]
    >>> found = dd.fit_many(truth, sets, progress=False)
    >>> len(found), found.best.shape
    (3, (3, 4))
    """
    sweep, others = SweepOptions.taken_from(options)
    given = read_options("fit_many", others)
    tasks, given = make_tasks(problem, data, starts, given)
    method = chosen_method(optimizer, tasks.problems[0], given)
    if sweep.is_plain:
        return method.fit_many(tasks, given)
    return fit_sweep(method, tasks, given, sweep)
