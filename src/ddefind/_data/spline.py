"""The target trajectory of an integral loss: a not-a-knot cubic spline through the
data, which is evaluated in JAX."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._util.arrays import take
from .._util.errors import DataError
from .data import Data


@final
class Spline(eqx.Module):
    """Cubic polynomials between knots. The first and the last one continue outside.

    On piece i the spline is the sum over p = 0, ..., 3 of `coefficients[i, p]` times
    `(t - knots[i])**p`. Where many fits run as vectorised lanes, both arrays have one
    more axis, the last, over lanes. `uniform` says that the knots are equally spaced:
    the piece of a time is then found by a division instead of a search."""

    knots: Any
    coefficients: Any
    uniform: bool = eqx.field(static=True)

    def pad(self, pieces: int) -> "Spline":
        """Return the same spline with `pieces` pieces, so that splines of different
        data can share one array. The added pieces begin at infinite times; the knots
        are no longer equally spaced."""
        more = pieces - len(self.coefficients)
        # The last piece of the data continues for ever, so its end is infinite, too.
        knots = np.concatenate([self.knots[:-1], np.full(more + 1, np.inf)])
        last = np.repeat(self.coefficients[-1:], more, axis=0)
        return Spline(knots, np.concatenate([self.coefficients, last]), False)

    def __call__(self, t: jax.Array | float) -> jax.Array:
        """Return the values at time `t`, one per quantity."""
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
    """Return the not-a-knot cubic spline through the means of the replicates, computed
    by SciPy's `CubicSpline`.

    A quantity with missing values has knots only where it was measured. Its pieces are
    divided at the remaining times, so that all quantities share the same knots."""
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
        measured = np.isfinite(values)
        curve = CubicSpline(times[measured], values[measured])
        for power, factorial in enumerate((1, 1, 2, 6)):
            derivative = curve(times[:-1], nu=power)
            coefficients[:, power, column] = derivative / factorial
    return Spline(times, coefficients, _is_uniform(times))


def _is_uniform(times: np.ndarray) -> bool:
    return bool(np.ptp(np.diff(times)) < 1e-9 * times[-1])
