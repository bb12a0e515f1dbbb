"""What the result of a search says of the estimate that a fit returns."""

from typing import Any

import numpy as np

from .._data.data import Data
from .._least_squares import levenberg_marquardt
from .._least_squares.search import SearchResult
from .._least_squares.setup import FitSetup
from .._problem.history import time_zero
from .._problem.problem import Problem
from .status import Status

STATUS = {
    levenberg_marquardt.LIMIT: Status.limit,
    levenberg_marquardt.GRADIENT: Status.converged_gradient,
    levenberg_marquardt.STEP: Status.converged_step,
    levenberg_marquardt.EXACT: Status.exact,
    levenberg_marquardt.STUCK: Status.stuck,
    levenberg_marquardt.NO_START: Status.no_start,
    levenberg_marquardt.KINK: Status.converged_kink,
    levenberg_marquardt.SLOW: Status.converged_slowly,
    levenberg_marquardt.PROBABLE: Status.most_probable,
}


def search_fields(
    setup: FitSetup,
    problem: Problem | tuple[Problem, ...],
    search_result: SearchResult,
) -> dict[str, Any]:
    """Make the fields of an estimate that follow from a search; `problem` has the
    values of what is fixed. For a study there is one for each experiment."""
    free, best = setup.model.free, search_result.best
    theta = best.theta[0]
    status = STATUS[int(best.status[0])]
    if search_result.interrupted:
        status = Status.interrupted
    loss = float(best.loss[0])
    # One quantity without given noise: its plain sum of squares.
    is_plain = not setup.weights_are_absolute and len(search_result.noise) == 1
    if is_plain and np.isfinite(loss):
        loss = float(best.squares[0].sum())
    first = np.where(np.isnan(setup.guess), theta, setup.guess)
    # On a mesh n is the number of steps in the record.
    n, is_mesh = int(best.n[0]), setup.model.mesh is not None
    problems = problem if isinstance(problem, tuple) else (problem,)
    learned, start = (
        tuple(
            part.model.free.problem_at(setup.local(values, e), own)
            for e, (part, own) in enumerate(zip(setup.parts, problems))
        )
        for values in (theta, first)
    )
    data = setup.data
    if isinstance(data, Data):
        data = data.later(time_zero(problems[0].history))
    return {
        "problem": learned[0],
        "problems": learned if setup.joint is not None else (),
        "start": start[0],
        "data": data,
        "names": free.names,
        "best": theta,
        "loss": loss,
        "status": status,
        "message": status.value,
        "starts": search_result.starts,
        "solver": setup.model.solver,
        "steps_per_delay": setup.steps_per_delay if is_mesh else n,
        "max_step": setup.data.T / n if is_mesh else None,
        "setup": setup,
        "search_result": search_result,
    }
