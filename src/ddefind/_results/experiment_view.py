"""One experiment of a fitted study, as a fit by itself."""

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from .estimate_record import AbstractEstimate

_Fit = TypeVar("_Fit", bound="AbstractEstimate")


def experiment_view(fit: _Fit, e: int) -> _Fit:
    """Experiment `e` of a study, with the estimates of the study and with the residuals
    of this experiment alone. Its sum of squares is the part that belongs to it."""
    setup, part = fit.setup, fit.uncertainty.parts[e]
    data, theta, result = fit.data.parts[e], part.theta, part.search_result
    first, last = fit.data.rows[e]
    fitted = fit.fitted[first:last]
    squares = np.nansum((data.x - fitted) ** 2, axis=0)
    weighted = result.points.weights * (np.nan_to_num(data.x) - fitted) ** 2
    loss = float(np.sum(np.where(result.points.weights > 0, weighted, 0.0)))
    gram = np.zeros((1, 1 + len(theta), 1 + len(theta)))
    gram[0, 0, 0] = loss
    best = replace(result.best, gram=gram, squares=squares[None])
    is_plain = not setup.weights_are_absolute and len(result.noise) == 1
    return replace(
        fit,
        problem=fit.problems[e],
        problems=(),
        models=(),
        model=fit.models[e] if fit.models else fit.model,
        data=data,
        names=part.setup.model.free.names,
        best=theta,
        loss=float(squares.sum()) if is_plain else loss,
        setup=part.setup,
        search_result=replace(result, best=best),
        assessment=None,
        study=fit,
        experiment=e,
    )
