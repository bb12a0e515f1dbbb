"""The delayed logistic equation, solved by scipy's DOP853 from delay to delay."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp


def delayed_logistic(
    r: float, K: float, b: float, tau: float, t: np.ndarray
) -> np.ndarray:
    """The solution of x' = r x (1 - x(t - tau) / K) with the history b, at the times
    `t`."""
    x, found = b, np.empty(len(t))
    before: Callable[[Any], Any] = lambda s: np.full(np.shape(s), b)  # noqa: E731
    for k in range(int(np.ceil(t[-1] / tau))):
        solved = solve_ivp(
            lambda s, x, before=before: r * x * (1 - before(s - tau) / K),
            (k * tau, (k + 1) * tau),
            [x],
            "DOP853",
            rtol=1e-11,
            atol=1e-11,
            dense_output=True,
        )
        here = (t >= k * tau) & (t <= (k + 1) * tau)
        found[here] = solved.sol(t[here])[0]
        x, before = solved.y[0, -1], lambda s, sol=solved.sol: sol(s)[0]
    return found
