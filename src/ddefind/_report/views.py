"""The experiments of a fit, as far as a page can show them."""

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from .._results.result import AbstractFit

_Fit = TypeVar("_Fit", bound="AbstractFit")
# The page shows so many experiments of a study, times the number of quantities.
_MOST_CHARTS = 40


def views_of(fit: _Fit) -> tuple[dict[str, _Fit], str]:
    """The fit of each experiment by its label, or the only fit, without a label; and a
    sentence on those that are left out."""
    views = getattr(fit, "experiments", {})
    if not views:
        return {"": fit}, ""
    most = max(1, _MOST_CHARTS // len(fit.data.names))
    if len(views) <= most:
        return views, ""
    first = dict(islice(views.items(), most))
    return first, f"The first {most} of {len(views)} experiments are shown."


def times_as_numbers(times: np.ndarray) -> np.ndarray:
    """Times of an axis as numbers: dates are seconds since 1970 in UTC."""
    if np.issubdtype(times.dtype, np.datetime64):
        return times.astype("datetime64[us]").astype(np.int64) / 1e6
    return times
