"""Delay equations solved by scipy: an integrator that is not ours, from breaking point
to breaking point."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

# A jump that has passed so many delays no longer disturbs the integrator.
_PASSAGES = 7


def method_of_steps(
    rhs: Callable[..., Any],
    start: Any,
    delays: Sequence[float],
    T: float,
    tolerance: float,
    history: Callable[[float], Any] | None = None,
    switches: Sequence[float] = (),
) -> Callable[[Any], np.ndarray]:
    """The solution on [0, T], as a function of a vector of times. `rhs(x, y, tau, t)`
    and `history(t)`, which is `start` if it is not given, are functions of NumPy."""
    x = np.asarray(start, float)
    past = history or (lambda t, start=x: start)
    breaks = _breaks(delays, switches, T)
    pieces: list[Callable[[Any], np.ndarray]] = []

    def solved(t: float) -> np.ndarray:
        """The solution at a time of the pieces that there are."""
        which = int(np.searchsorted(breaks, t)) - 1
        return pieces[min(max(which, 0), len(pieces) - 1)](t)

    for a, b in zip(breaks, breaks[1:]):
        middle = 0.5 * (a + b)
        sources = [past if middle < tau else solved for tau in delays]

        def slope(t, x, sources=sources, a=a, b=b):
            delayed = tuple(source(t - tau) for source, tau in zip(sources, delays))
            inside = np.clip(t, a + 1e-12, b - 1e-12)
            return rhs(x, delayed, tuple(delays), inside)

        tight: Any = dict(rtol=tolerance, atol=tolerance, dense_output=True)
        found = solve_ivp(slope, (a, b), x, "DOP853", **tight)
        pieces.append(found.sol)
        x = found.y[:, -1]

    def solution(times):
        times = np.atleast_1d(times)
        which = np.clip(np.searchsorted(breaks, times) - 1, 0, len(pieces) - 1)
        return np.stack([pieces[j](t) for j, t in zip(which, times)])

    return solution


def _breaks(delays: Sequence[float], switches: Sequence[float], T: float) -> np.ndarray:
    """Breaking points, not further from each other than the shortest delay."""
    points = {0.0, *(s for s in switches if s > 0)}
    found = points | set(np.arange(0.0, T, min(delays)).tolist())
    for _ in range(_PASSAGES):
        points = {b + tau for b in points for tau in delays if b + tau < T}
        found |= points
    ordered = np.array(sorted(b for b in found if b < T) + [T])
    return ordered[np.append(True, np.diff(ordered) > 1e-9 * T)]
