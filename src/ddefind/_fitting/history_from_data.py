"""Fits whose history the data settle: `history="auto"` and `history="data"`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .._data.data import Data
from .._equation.equation import Equation
from .._equation.history_kinds import CHOSEN_BY_FIT
from .._least_squares.search import PHASES
from .._results.estimate import Estimate
from .._util import wording
from .._util.progress import Progress, Reporter
from .choose_history import COMPARED, choose_history
from .full_names import by_full_names
from .intervals import with_intervals
from .least_squares import LeastSquares
from .measured_past import fit_after_past
from .method import AbstractMethod
from .request import FitOptions

# The fits of which each kind of history is the result, as the progress bar calls them.
_FITS = {"auto": COMPARED, "data": ("first fit", "second fit")}


def depends_on_data(model: Equation, options: FitOptions) -> str | None:
    """The kind of history that is asked for, if only data can settle it."""
    history = model.history if options.history is None else options.history
    is_chosen = isinstance(history, str) and history in CHOSEN_BY_FIT
    return history if is_chosen else None


def fit_with_data(
    model: Equation,
    data: Data,
    optimizer: AbstractMethod | None,
    options: FitOptions,
    fit: Callable[[Equation, Data, AbstractMethod, FitOptions], Estimate],
) -> Estimate:
    """The fit with the kind of history for which there is most evidence (`"auto"`), or
    with the beginning of the data as the past (`"data"`).

    `fit(model, data, method, options)` fits a model whose history is known."""
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
            return fit(known, part, method, plain)

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
        best = with_intervals(best, options.level, reporter)
    return best
