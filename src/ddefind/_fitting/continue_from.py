"""`continue_from`: predict a new record by the equation of a fit."""

from collections.abc import Sequence
from typing import Any, Unpack, overload

from .._data.data import Data
from .._problem.parameters import Fixed
from .._results.batch import FitBatch
from .._results.estimate import Estimate
from .._util.errors import check_instance
from .fit import fit as fit_one, fit_many
from .least_squares import LeastSquares
from .request import LeastSquaresKeywords

# The history alone has few values, and the data begin where it ends: few starts do.
_STARTS = 4


@overload
def continue_from(
    fit: Estimate, data: Data, **options: Unpack[LeastSquaresKeywords]
) -> Estimate: ...
@overload
def continue_from(
    fit: Estimate, data: Sequence[Data], **options: Unpack[LeastSquaresKeywords]
) -> FitBatch[Estimate]: ...
def continue_from(
    fit: Estimate,
    data: Data | Sequence[Data],
    **options: Unpack[LeastSquaresKeywords],
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
    call: Any = fit_one if isinstance(data, Data) else fit_many
    return call(fit.problem, data, optimizer=method, **options)
