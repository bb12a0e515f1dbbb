"""The target trajectory: a not-a-knot cubic spline through the data, evaluated in
JAX."""

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._util.buffers import take
from .._util.errors import DataError
from .data import Data


@final
class Spline(eqx.Module):
    """Cubic pieces between knots, continued by the end pieces outside.

    `coefficients[i, p]` multiplies (t - knots[i])^p; for lanes both have a last axis
    more."""

    knots: Any
    coefficients: Any
    # Equal spacing (the usual case) finds a piece by division instead of by search.
    uniform: bool = eqx.field(static=True)

    def pad(self, pieces: int) -> "Spline":
        """The same spline with more pieces, which no time reaches; no longer
        uniform."""
        more = pieces - len(self.coefficients)
        # The last true piece goes on for ever: its end is out of reach, too.
        knots = np.concatenate([self.knots[:-1], np.full(more + 1, np.inf)])
        last = np.repeat(self.coefficients[-1:], more, axis=0)
        return Spline(knots, np.concatenate([self.coefficients, last]), False)

    def __call__(self, t):
        pieces = self.coefficients.shape[0]
        if self.uniform:
            spacing = (self.knots[-1] - self.knots[0]) / pieces
            piece = jnp.floor((t - self.knots[0]) / spacing).astype(int)
        else:
            piece = jnp.sum(jnp.asarray(self.knots) <= t, axis=0) - 1
        piece = jnp.clip(piece, 0, pieces - 1)
        c = take(jnp.asarray(self.coefficients), piece)
        u = t - take(jnp.asarray(self.knots), piece)
        return c[0] + u * (c[1] + u * (c[2] + u * c[3]))


def spline(data: Data) -> Spline:
    """The spline through the means of the replicates, as scipy's `CubicSpline`.

    A quantity with gaps has its own knots; its pieces are cut at the others', too.
    """
    from scipy.interpolate import CubicSpline

    times, mean = data.mean()
    for name, count in zip(data.names, np.isfinite(mean).sum(axis=0).tolist()):
        if count < 2:
            raise DataError(
                f"A spline needs at least two times, but {name!r} is measured at "
                f"{count}. Use the loss `SumOfSquares()`, or leave it out of the data "
                "and give the problem an `observe` that returns the others."
            )
    if np.all(np.isfinite(mean)):
        # scipy keeps the highest power first, and the pieces second.
        coefficients = CubicSpline(times, mean).c[::-1].swapaxes(0, 1)
        return Spline(times, coefficients, _is_uniform(times))
    coefficients = np.empty((len(times) - 1, 4, mean.shape[1]))
    for column, values in enumerate(mean.T):
        here = np.isfinite(values)
        piece = CubicSpline(times[here], values[here])
        for power, factorial in enumerate((1, 1, 2, 6)):
            derivative = piece(times[:-1], nu=power) / factorial
            coefficients[:, power, column] = derivative
    return Spline(times, coefficients, _is_uniform(times))


def _is_uniform(times: np.ndarray) -> bool:
    return bool(np.ptp(np.diff(times)) < 1e-9 * times[-1])
