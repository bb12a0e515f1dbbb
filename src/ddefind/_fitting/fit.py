"""`fit`, `fit_many` and `continue_from`: they read their arguments, and hand them to a
method."""

from collections.abc import Sequence
from typing import Any, TypeAlias, Unpack, overload

from .._data.data import Data
from .._data.study_data import Experiment
from .._equation.equation import Equation
from .._loss.losses import SumOfSquares
from .._problem.parameters import Fixed, parameter_vector
from .._problem.problem import Problem
from .._results.batch import FitBatch
from .._results.estimate import Estimate
from .._results.result import FitResult
from .._util import wording
from .._util.errors import check_instance
from .fit_options import ALL_FITS, DESCENT, SWEEPS, with_options_listed
from .history_from_data import fit_with_history
from .least_squares import LeastSquares
from .method import AbstractMethod
from .multiple_shooting import MultipleShooting
from .optimizers import AbstractOptimizer, Adam
from .read_tasks import (
    DataSets,
    Model,
    Problems,
    Starts,
    kind_from_data,
    many_tasks,
    one_task,
    read_experiments,
    study_task,
    whole_model,
)
from .request import FitKeywords, FitOptions, LeastSquaresKeywords, read_options
from .sweep import LeastSquaresSweepKeywords, SweepFitKeywords, SweepOptions, fit_sweep

# Above this number of parameters the normal equations cost more than they save.
_MOST_FOR_LEAST_SQUARES = 1500
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
        if not isinstance(optimizer, LeastSquares | None):
            raise ValueError(
                f"A study is fitted by least squares: leave out {wording.METHOD}."
            )
        task = study_task(problem, experiments, given)
        optimizer = optimizer or LeastSquares()
    else:
        check_instance("data", data, Data, "Data(t, x)")
        assert isinstance(data, Data)
        model = whole_model(problem, given)
        if kind := kind_from_data(model):
            return fit_with_history(kind, model, data, optimizer, given)
        task = one_task(model, data, given)
    return _chosen_method(optimizer, task.problem, given).fit(task, given)


def _chosen_method(
    optimizer: AbstractMethod | None, problem: Problem, options: FitOptions
) -> AbstractMethod:
    """Return the method that fits: by default least squares, where that is possible and
    no option of gradient descent is given."""
    if optimizer is None:
        descends = (options.gradient, options.epochs, options.threshold)
        squares = isinstance(options.loss, SumOfSquares)
        few = len(parameter_vector(problem)) <= _MOST_FOR_LEAST_SQUARES
        plain = all(option is None for option in descends)
        optimizer = LeastSquares() if squares and few and plain else Adam()
    check_instance("optimizer", optimizer, AbstractMethod, "Adam(0.03)")
    optimizer.check(options)
    if problem.noise is not None and not isinstance(optimizer, LeastSquares):
        raise ValueError(
            f"`{type(optimizer).__name__}()` knows Gaussian noise alone, without "
            "models for it and without values below a limit. Leave these out, or fit "
            f"with {wording.LEAST_SQUARES}."
        )
    return optimizer


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
    """Fit one model many times: to many data sets, from many starts, or both.

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
    tasks = many_tasks(problem, data, starts, given)
    method = _chosen_method(optimizer, tasks.problems[0], given)
    if sweep.is_plain:
        return method.fit_many(tasks, given)
    return fit_sweep(method, tasks, given, sweep)


# The history alone has few values, and the data begin where it ends: few starts do.
_STARTS = 4
# `continue_from` has an argument of the name `fit`.
_fit = fit


@overload
def continue_from(
    fit: Estimate, data: Data, **options: Unpack[LeastSquaresKeywords]
) -> Estimate: ...
@overload
def continue_from(
    fit: Estimate, data: Sequence[Data], **options: Unpack[LeastSquaresKeywords]
) -> FitBatch[Estimate]: ...
def continue_from(
    fit: Estimate, data: Data | Sequence[Data], **options: Unpack[LeastSquaresKeywords]
) -> Any:
    """Predict a new record from its beginning: the history is fitted to it, and all
    that was learned before, such as rates, delays and networks, is held.

    Each record of a system has a history of its own, which must be known before an
    equation that was learned from other records can predict it. The result is a fit of
    the new record, and its `predict` goes on from there.

    **Arguments**

    - `fit`: the fit of one data set, or of a study.
    - `data`: the beginning of a new record, with the quantities of the fit; or a list
      of such records, which are then fitted side by side, as by `fit_many`.
    - all options of `fit`; settings in `parameters` are for parameters of the history,
      and `doses` those of the new record, by default those of the fit.

    The bands of `predict` hold the uncertainty of the history, but not that of what was
    learned before.

    >>> import numpy as np
    >>> import ddefind as dd
    >>> model = dd.equation("x' = -k * x(t - tau)")
    >>> def record(b, T):
    ...     t = np.linspace(0, T, 5 * T)
    ...     truth = model.problem(k=1.2, tau=1.0, b=b)
    ...     return dd.Data(t, np.asarray(dd.solve(truth, T=T)(t)), names=["x"])
    >>> learned = dd.fit(model, record(1.0, 8), intervals=False, progress=False)
    >>> new = dd.continue_from(learned, record(2.0, 4), intervals=False, progress=False)
    >>> bool(np.allclose(new.predict([8.0]).mean, record(2.0, 8).x[-1], atol=1e-3))
    True
    """
    check_instance("fit", fit, Estimate, "dd.fit(model, data)")
    if fit.model is not None and fit.model.inputs:
        raise ValueError(
            "The equation has inputs, of which a new record has its own. Make its "
            "problem, `fit.model.problem(values, inputs=..., networks=...)`, and give "
            "`dd.fit` every learned parameter as `dd.Fixed()`."
        )
    part = fit.setup.parts[0]
    held: dict[str, Any] = {
        name: Fixed()
        for name, is_history in zip(part.model.free.names, part.is_history)
        if not is_history
    }
    options["parameters"] = held | dict(options.get("parameters") or {})
    options.setdefault("steps_per_delay", fit.steps_per_delay)
    method = LeastSquares(starts=_STARTS)
    call: Any = _fit if isinstance(data, Data) else fit_many
    return call(fit.problem, data, optimizer=method, **options)
