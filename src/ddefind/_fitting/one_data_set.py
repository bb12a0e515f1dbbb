"""The fit of one data set, also where the data settle its history: `history="auto"` and
`history="data"`."""

from dataclasses import replace
from typing import Any

from .._data.data import Data
from .._equation.equation import Equation
from .._equation.history_kinds import CHOSEN_BY_FIT
from .._least_squares.search import PHASES
from .._loss.losses import SumOfSquares
from .._problem.parameters import parameter_vector
from .._problem.problem import Problem
from .._results.estimate import Estimate
from .._util import wording
from .._util.errors import check_instance
from .._util.progress import Progress, Reporter
from .choose_history import COMPARED, choose_history
from .full_names import by_full_names
from .least_squares import LeastSquares, completed
from .matched_data import matched_data
from .measured_past import fit_after_past
from .method import AbstractMethod
from .noise_of_data import check_method, with_noise_of
from .optimizers import Adam
from .read_model import Model, equation_of_model, problem_of_model, with_settings_of
from .request import FitOptions, FitTask
from .scaled_networks import scaled_networks

# Above this number of parameters the normal equations cost more than they save.
_MOST_FOR_LEAST_SQUARES = 1500
# The fits of which each kind of history is the result, as the progress bar calls them.
_FITS = {"auto": COMPARED, "data": ("first fit", "second fit")}


def depends_on_data(model: Equation, options: FitOptions) -> str | None:
    """The kind of history that is asked for, if only data can settle it."""
    history = model.history if options.history is None else options.history
    is_chosen = isinstance(history, str) and history in CHOSEN_BY_FIT
    return history if is_chosen else None


def fit_one(
    model: Model, data: Data, optimizer: AbstractMethod | None, options: FitOptions
) -> Any:
    """Fit a model to one data set."""
    if isinstance(model, Equation) and depends_on_data(model, options):
        return _fit_with_data(model, data, optimizer, options)
    return _fit_known(model, data, optimizer, options)


def _fit_known(
    problem: Model,
    data: Data,
    optimizer: AbstractMethod | None,
    given: FitOptions,
) -> Any:
    """Fit a model whose history is known."""
    model, equation = (
        problem_of_model(problem, data, given),
        equation_of_model(problem, given),
    )
    matched = matched_data(model, equation, data)
    model = scaled_networks(with_noise_of(model, matched, given.noise), matched)
    given = with_settings_of(equation, matched, given)
    task = FitTask(model, matched, {}, given.seed, equation)
    return chosen_method(optimizer, model, given).fit(task, given)


def chosen_method(
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
    check_method(optimizer, problem)
    return optimizer


def _fit_with_data(
    model: Equation, data: Data, optimizer: AbstractMethod | None, options: FitOptions
) -> Estimate:
    """The fit with the kind of history for which there is most evidence (`"auto"`), or
    with the beginning of the data as the past (`"data"`)."""
    kind = depends_on_data(model, options)
    if not isinstance(optimizer, LeastSquares | None):
        raise ValueError(
            f"{wording.history(str(kind))} is for least squares: leave out "
            f"{wording.METHOD}, or choose another history."
        )
    if kind == "data" and (model.inputs or model.doses is not None):
        raise ValueError(
            f"{wording.history('data')} moves time zero into the record, but the times "
            "of inputs and doses are counted from the beginning. Choose another "
            "history."
        )
    method = LeastSquares() if optimizer is None else optimizer
    constant = model.with_history("constant")
    # A name may mean something else where another history has it, too.
    parameters = by_full_names(constant.blank, options.parameters)

    fits = _FITS[str(kind)]
    with Reporter(options.progress, len(fits) * len(PHASES) + 1, 1) as reporter:
        labels = iter(fits)

        def fit_known(
            known: Equation, part: Data, settings: Any, solver: Any
        ) -> Estimate:
            label = next(labels)
            done = len(PHASES) * fits.index(label)

            def report(now: Progress) -> None:
                phase = f"{label}: {now.phase}"
                step = done + now.epoch
                reporter.show(phase, step, 0, now.loss, now.tau, now.message)

            plain = replace(options, history=None, intervals=False, parameters=settings)
            plain = replace(plain, progress=report)
            plain = plain if solver is None else replace(plain, solver=solver)
            return _fit_known(known, part, method, plain)

        if kind == "auto":
            best = choose_history(
                lambda history, solver: fit_known(
                    model.with_history(history), data, parameters, solver
                )
            )
        else:
            matched = data.select(model.observed)
            best = fit_after_past(constant, matched, parameters, fit_known)
        if options.intervals is False or best.search_result.interrupted:
            return best
        best = completed(best, options.level, reporter)
    return best
