r"""Gradient matching: parameters from a smooth curve through the data, without solving.

Given the curve $\hat x$ and a delay, theta and phi minimise

$$\sum_t w\,\bigl|F(\hat x(t), y(t), \tau, t; \theta) - \hat x'(t)\bigr|^2
  + w_0\,\bigl|X_0(0; \phi) - \hat x(0)\bigr|^2,$$

where y(t) = \hat x(t - tau) once that is measured and X_0(t - tau; phi) before. It is
biased by the smoothing, but has few minima and no trajectory that explodes: it turns a
delay into a good start for least squares."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._data.smoothing import Curve
from .._util.buffers import read
from .levenberg_marquardt import Box, Found, Normal, minimise
from .normal_equations import Model

# Where the curve is compared.
_TIMES = 80
_LIMIT = 15


class Slopes(NamedTuple):
    """The curve at some times, and one delay earlier where that is `known`."""

    t: Any  # [M]
    x: Any  # [M, d]
    slope: Any  # [M, d]
    y: Any  # [M, d]
    known: Any  # [M]
    start: Any  # [d]
    weight: Any  # [d], of the slopes
    start_weight: Any  # [d]


def slopes(curve: Curve, T: float, delays: np.ndarray, noise: np.ndarray) -> Slopes:
    """What gradient matching needs of a curve, for each of the delays."""
    t = np.linspace(0, T, _TIMES)
    x, slope = curve.x(t), curve.slope(t)
    known = t >= delays[:, None]
    size = np.mean(slope**2, axis=0)
    start = curve.x(np.zeros(1))[0]
    near = np.maximum(noise**2, 1e-4 * np.var(x, axis=0) + 1e-300)
    earlier = curve.x(np.where(known, t - delays[:, None], 0.0))
    weights = 1 / np.where(size > 0, size, 1.0), 1 / near

    def repeat(a):
        return np.broadcast_to(a, (len(delays), *a.shape))

    t, x, slope, start = map(repeat, (t, x, slope, start))
    return Slopes(t, x, slope, earlier, known, start, *map(repeat, weights))


@eqx.filter_jit
def match_block(model: Model, theta, box: Box, curves: Slopes) -> Found:
    """Many matchings, one after the other; arrays have a first axis over them."""
    return lax.map(lambda each: _match(model, *each), (theta, box, curves))


def _match(model: Model, theta, box: Box, curve: Slopes) -> Found:
    def evaluate(theta, memory):
        extended = model.extended(theta, 1, 0.0)
        system = extended.system

        def add(j, gram):
            t, x, y = (read(a, j) for a in (curve.t, curve.x, curve.y))

            def slope(params):
                past = system.history(params.history, jnp.minimum(t - params.tau, 0.0))
                delayed = jnp.where(read(curve.known, j), y, past)
                return system.slope(params.rhs, x, delayed, params.tau, t)

            rows = _minus(extended.push(slope), read(curve.slope, j))
            return gram + _gram(curve.weight, rows)

        start = _minus(extended.push(system.start), curve.start)
        gram = _gram(curve.start_weight, start)
        gram = lax.fori_loop(0, curve.t.shape[0], add, gram)
        return Normal(gram, jnp.zeros(1)), memory

    return minimise(evaluate, theta, box, jnp.asarray(_LIMIT), 1, 0.0, ())


def _minus(rows, values):
    return jnp.concatenate([rows[:, :1] - values[:, None], rows[:, 1:]], axis=1)


def _gram(weight, rows):
    products = rows[:, :, None] * rows[:, None, :]
    return jnp.sum(weight[:, None, None] * products, axis=0)
