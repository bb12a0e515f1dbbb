"""One experiment of a fitted study, as a fit by itself."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .._loss.path_costs import Points

if TYPE_CHECKING:
    from .estimate import Estimate


def experiment_view(fit: "Estimate", e: int) -> "Estimate":
    """Experiment `e` of a study, with the estimates of the study and with the residuals
    of this experiment alone. Its sum of squares is the part that belongs to it."""
    setup, result = fit.setup, fit.search_result
    part, data = setup.parts[e], fit.data.parts[e]
    theta = setup.local(fit.best, e)
    first, last = fit.data.rows[e]
    fitted = fit.fitted[first:last]
    points = Points(*(np.asarray(array)[first:last] for array in result.points))
    squares = np.nansum((data.x - fitted) ** 2, axis=0)
    loss = float(np.nansum(points.weights * (np.nan_to_num(data.x) - fitted) ** 2))
    gram = np.zeros((1, 1 + len(theta), 1 + len(theta)))
    gram[0, 0, 0] = loss
    best = replace(result.best, theta=theta[None], gram=gram, squares=squares[None])
    is_plain = not setup.weights_are_absolute and len(result.noise) == 1
    return replace(
        fit,
        problem=fit.problems[e],
        problems=(),
        data=data,
        names=part.model.free.names,
        best=theta,
        loss=float(squares.sum()) if is_plain else loss,
        setup=part,
        search_result=replace(result, best=best, points=points, minima=()),
        assessment=None,
        study=fit,
        experiment=e,
    )
