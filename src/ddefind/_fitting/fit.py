"""`fit` and `fit_many`: what is asked for, and by which method it is done."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._data.data import Data
from .._equation.equation import Equation
from .._loss.gradients import AbstractGradient
from .._loss.losses import AbstractLoss, SumOfSquares
from .._problem.parameters import Fixed, parameter_vector
from .._problem.problem import Problem
from .._results.result import FitBatch
from .._solve.runge_kutta import RK4, AbstractSolver
from .._util.errors import check_instance
from .._util.progress import Progress
from .gradient_descent import descend
from .least_squares import least_squares
from .optimizers import AbstractOptimizer, Adam, LeastSquares
from .request import FitRequest

# Above, the normal equations cost more than they save.
_MOST_FOR_LEAST_SQUARES = 200


def fit(
    problem: Problem | Equation,
    data: Data,
    *,
    history: Any = None,
    parameters: Mapping[str, Any] | None = None,
    loss: AbstractLoss = SumOfSquares(),
    optimizer: AbstractOptimizer | LeastSquares | None = None,
    gradient: AbstractGradient | None = None,
    solver: AbstractSolver = RK4(),
    steps_per_delay: int | None = None,
    epochs: int | None = None,
    threshold: float | None = None,
    seed: int = 0,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Any:
    """Learn a problem's parameters, delay and history from data.

    By default by least squares from many starts, the problem's own values among them:
    the result is an `Estimate`. With more than 200 parameters, another loss, or options
    of gradient descent it is Adam from the problem's own values, and a `FitResult`.

    **Arguments**

    - `problem`: a `Problem`, or an `Equation`, which needs no values; the data's
      columns are matched to its states, or to what it observes, by name.
    - `history`: for an `Equation`, another history than its own.
    - `parameters`: by name, a `Parameter` (start, bounds, prior), `Fixed`, `Tied` or a
      number to start from. All others are learned without bounds; tau stays positive,
      and least squares keeps it between two sampling intervals and 0.9 of the record.
    - `optimizer`: `LeastSquares()`, `Adam()`, `RMSProp()`, `SGD()`, `LBFGS()`.
    - `steps_per_delay`: of the solver, 20 by default. Least squares begins with 10 and
      takes as many as its estimates need.
    - `seed`: for the starts.
    - `progress`: a function called now and then; True or False for a bar or none. By
      default there is a bar on a terminal.

    For gradient descent only: `gradient` (`Discrete()`); `epochs`, the number of steps
    (500), and `threshold`, a loss below which it ends before (0). Interrupted (Ctrl-C),
    it returns the best so far.

    >>> import numpy as np
    >>> import ddefind as dd
    >>> truth = dd.Problem(dd.models.Exponential(-1.0, -0.5), dd.Constant(1.0), tau=1.0)
    >>> t = np.linspace(0, 5, 40)
    >>> start = dd.Problem(dd.models.Exponential(-0.7, -0.7), dd.Constant(0.8), tau=0.8)
    >>> found = dd.fit(start, dd.Data(t, dd.solve(truth, T=5)(t)), progress=False)
    >>> bool(found.loss < 1e-9)
    True
    """
    request = _job(
        [problem],
        [data],
        [{}],
        [seed],
        history=history,
        parameters=parameters,
        loss=loss,
        optimizer=optimizer,
        gradient=gradient,
        solver=solver,
        steps_per_delay=steps_per_delay,
        epochs=epochs,
        threshold=threshold,
        progress=progress,
    )
    if isinstance(request.optimizer, LeastSquares):
        return least_squares(request)[0]
    return descend(request, record=True)[0]


def fit_many(
    problem: Problem | Equation | Sequence[Problem],
    data: Data | Sequence[Data],
    *,
    history: Any = None,
    starts: int | Sequence[Mapping[str, float]] | None = None,
    parameters: Mapping[str, Any] | None = None,
    loss: AbstractLoss = SumOfSquares(),
    optimizer: AbstractOptimizer | LeastSquares | None = None,
    gradient: AbstractGradient | None = None,
    solver: AbstractSolver = RK4(),
    steps_per_delay: int | None = None,
    epochs: int | None = None,
    threshold: float | None = None,
    seed: int = 0,
    progress: bool | Callable[[Progress], None] | None = None,
) -> FitBatch:
    """Many fits of one model at once: of many data sets, from many starts, or both.

    They run as one compiled program in blocks that fill the vector units, on all cores;
    each ends as it would alone, to rounding.

    **Arguments**, where they differ from `fit`'s:

    - `problem`: one, or one for each fit, all of the same shape: different starts.
    - `data`: one data set for all fits, or one for each; times may differ.
    - `starts`: values by name for each fit, or a number of fits, each with random
      starts of its own (see `Parameter`).

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
    request = _job(
        *_broadcast(problem, data, starts, seed),
        history=history,
        parameters=parameters,
        loss=loss,
        optimizer=optimizer,
        gradient=gradient,
        solver=solver,
        steps_per_delay=steps_per_delay,
        epochs=epochs,
        threshold=threshold,
        progress=progress,
    )
    if isinstance(request.optimizer, LeastSquares):
        return least_squares(request)
    return descend(request, record=False)


def _broadcast(problem, data, starts, seed):
    """One problem, data set, start and seed for each fit."""
    alone = isinstance(problem, (Problem, Equation))
    problems = [problem] if alone else list(problem)
    sets = [data] if isinstance(data, Data) else list(data)
    if starts is None or isinstance(starts, int):
        given, count = [{}], starts or 1
    else:
        given, count = list(starts), len(starts)
    sizes = {"problem": len(problems), "data": len(sets), "starts": count}
    fits = max(sizes.values())
    for name, size in sizes.items():
        if size < 1 or size not in (1, fits):
            shown = ", ".join(f"{n}: {s}" for n, s in sizes.items())
            raise ValueError(
                f"Give one or {fits} for `{name}`, as for the others ({shown})."
            )

    def every(items):
        return items * fits if len(items) == 1 else items

    seeds = [seed + index for index in range(fits)]
    return every(problems), every(sets), every(given), seeds


def _job(problems, sets, starts, seeds, *, history, **options) -> FitRequest:
    """The fits, with text equations made problems and the optimiser chosen."""
    model = problems[0] if isinstance(problems[0], Equation) else None
    if any(isinstance(p, Equation) and str(p) != str(model) for p in problems):
        raise ValueError(
            "`problem` has different equations. Fit one of them at a time: `fit_many` "
            "fits one equation to many data sets."
        )
    if model is not None:
        if history is not None:
            model = model.with_history(history)
        sets = [_matched(model, data) for data in sets]
        problems = [model.blank] * len(problems)
        options["parameters"] = {
            **_settings(model, sets[0]),
            **(options["parameters"] or {}),
        }
    elif history is not None:
        raise ValueError(
            "`history` replaces that of an `Equation`; a `Problem` has its own."
        )
    of_descent = [options[name] for name in ("gradient", "epochs", "threshold")]
    options["optimizer"] = _choose(
        options["optimizer"], problems[0], options["loss"], of_descent
    )
    return FitRequest(
        problems=problems,
        sets=sets,
        starts=starts,
        seeds=seeds,
        model=model,
        **options,
    )


def _matched(model: Equation, data: Data) -> Data:
    """The data with a column for each quantity that the model observes."""
    check_instance("data", data, Data, "Data(t, x)")
    return data.select(model.observed)


def _settings(model: Equation, data: Data) -> dict[str, Any]:
    settings: dict[str, Any] = dict(model.settings)
    if not model.needs_tau:
        # Nothing depends on it but the solver's steps.
        settings["tau"] = Fixed(data.T / 10)
    return settings


def _choose(optimizer, problem: Problem, loss, of_descent):
    """The optimiser: least squares where that is possible and nothing speaks of
    gradient descent."""
    check_instance("problem", problem, Problem, "Problem(rhs, history, tau)")
    squares = isinstance(loss, SumOfSquares)
    descends = any(option is not None for option in of_descent)
    if optimizer is None:
        few = len(parameter_vector(problem)) <= _MOST_FOR_LEAST_SQUARES
        return LeastSquares() if squares and few and not descends else Adam()
    if isinstance(optimizer, LeastSquares) and not squares:
        raise ValueError(
            f"`LeastSquares()` minimises `SumOfSquares()`, but `loss` is {loss}. Leave "
            "`loss` out, or take an optimiser such as `Adam()`."
        )
    if isinstance(optimizer, LeastSquares) and descends:
        raise ValueError(
            "`gradient`, `epochs` and `threshold` are options of gradient descent. "
            "Leave them out, or take an optimiser such as `Adam()`."
        )
    return optimizer
