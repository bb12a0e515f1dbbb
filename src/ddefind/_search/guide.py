r"""A guide, which pulls a trajectory towards the data, so that it cannot get lost.

A guided equation has a further term, which is zero where the trajectory passes through
the smooth curve c(t) of the data:

$$x'(t) = F(x(t), x(t - \tau), \tau, t) + k\,P(x)\,\bigl(c(t) - g(x(t))\bigr).$$

Here g is what is measured of the state, and P brings a difference of measured values
back to the states: it is one for a state that is measured itself, and zero for a state
that is hidden. A hidden state is integrated along with the others, which stay near the
data and drive it.

With a large gain k the trajectory follows the curve for all parameters, and its
distance from the curve is $(F - c') / k$: the fit is then gradient matching, with
hidden states as solutions of their own equations. With a smaller gain it comes nearer
to a fit of the trajectory. A sequence of guided fits with decreasing gains leads to the
neighbourhood of good minima that a fit without a guide hardly ever finds, because
almost all trajectories soon have nothing in common with the data."""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._data.smoothing import Curve
from .._engine.aligned.path import hermite
from .._util.arrays import read

# The number of pieces of the curve in a compiled program.
_PIECES = 128


class Guide(NamedTuple):
    """The curve of the data at equally spaced times, and the gain.

    `rows` [pieces + 1, 2, m] are values and slopes. The gain of a quantity that was not
    measured is zero."""

    rows: Any
    spacing: Any
    gain: Any  # [m]

    def curve(self, t: jax.Array) -> jax.Array:
        """Return the curve at the time `t`, [m]."""
        last = self.rows.shape[0] - 2
        position = jnp.clip(t / self.spacing, 0.0, last + 1.0)
        piece = jnp.clip(jnp.floor(position).astype(int), 0, last)
        left, right = read(self.rows, piece), read(self.rows, piece + 1)
        return hermite(position - piece, left, right, self.spacing)


def make_guide(curve: Curve, T: float, measured: np.ndarray, gain: float) -> Guide:
    """Return the guide along a curve through the `measured` quantities."""
    t = np.linspace(0, T, _PIECES + 1)
    rows = np.stack([curve.x(t), curve.slope(t)], axis=1)
    return Guide(rows, np.asarray(T / _PIECES), np.where(measured, gain, 0.0))


@final
class GuidedRhs(eqx.Module):
    """A right-hand side with a guide."""

    rhs: Any
    observe: Any
    guide: Guide | None

    def __getattr__(self, name: str) -> Any:
        # Switches of a problem are computed from the parameters of its `rhs`.
        if name.startswith("__") or name in ("rhs", "observe", "guide"):
            raise AttributeError(name)
        return getattr(self.rhs, name)

    def __call__(self, x, y, tau, t):
        slope = self.rhs(x, y, tau, t)
        assert self.guide is not None
        if self.observe is None:
            return slope + self.guide.gain * (self.guide.curve(t) - x)
        observed, pull = jax.vjp(lambda x: self.observe(x, t), x)
        jacobian = jax.vmap(lambda row: pull(row)[0])(jnp.eye(observed.shape[0]))
        size = jnp.sum(jacobian**2, axis=1)
        difference = self.guide.gain * (self.guide.curve(t) - observed)
        difference = difference / jnp.where(size > 0, size, 1.0)
        return slope + jnp.sum(difference[:, None] * jacobian, axis=0)
