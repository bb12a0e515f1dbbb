"""What makes the last fit of a discovery doubtful, in sentences; empty if nothing."""

from collections.abc import Collection

import numpy as np

from .._results.estimate import Estimate


def about_convergence(fit: Estimate | None) -> str:
    """What is said of a fit that has not converged."""
    if fit is None or fit.status.ok:
        return ""
    return (
        "The last fit did not converge: rely neither on this equation nor on the "
        "probabilities. Offer fewer terms, or other ones."
    )


def about_history(fit: Estimate | None, delays: Collection[float]) -> str:
    """What is said of a history that is far from all data between the longest delay
    before time zero and then: farther than these are from each other."""
    if fit is None or not delays:
        return ""
    delay, far = max(delays), []
    for one in fit.experiments.values() if fit.experiments else [fit]:
        past = [np.asarray(one.problem.history(-u * delay)) for u in (0.5, 1.0)]
        for state, values in zip(one.data.names, np.transpose(past)):
            x = one.data.x[:, one.data.names.index(state)]
            low, high = np.nanmin(x), np.nanmax(x)
            away = np.maximum(low - values, values - high)
            if np.max(away) > high - low:
                value = values[int(np.argmax(away))]
                far.append(f"{state} = {value:.3g} (data: {low:.3g} to {high:.3g})")
    if not far:
        return ""
    return (
        f"Before time zero the fit has {' and '.join(far)}: such a past may stand for "
        "a term that is missing. Fit the equation with a constant history, too, and "
        "compare."
    )
