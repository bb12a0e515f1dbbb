r"""Distributed delays: the mean of the past under a gamma distribution.

With the mean m and the shape k, substitute $s = m w^3$. Then w is nearly Gaussian, with
the mean $1 - 1/(9k)$ and the standard deviation $1/(3\sqrt k)$ (Wilson and Hilferty),
for every shape from 1 on, and

$$y(t) = \int g(s)\, x(t - s)\, ds = \frac{\int f(w)\, x(t - m w^3)\, dw}{\int f(w)\,
  dw}, \qquad \log f(w) = (3k - 1) \log w - k (w^3 - 1).$$

The integral is split at s = t, where the history ends and x has a kink, and each part
has Gauss's quadrature. The weights add up to one, so that constants are exact.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# The number of quadrature nodes on the solution and on the history, and how many
# standard deviations of w they reach.
SOLUTION_NODES, HISTORY_NODES, _REACH = 24, 16, 6.5


class KernelNodes(NamedTuple):
    """The delays s and weights of a quadrature, on the solution and on the history."""

    delays: jax.Array  # [SOLUTION_NODES]
    weights: jax.Array
    history_delays: jax.Array  # [HISTORY_NODES]
    history_weights: jax.Array


def gamma_nodes(mean: jax.Array, shape: jax.Array, t: jax.Array) -> KernelNodes:
    """The quadrature of a gamma distribution at the time `t`."""
    center, sd = 1 - 1 / (9 * shape), 1 / (3 * jnp.sqrt(shape))
    low = jnp.maximum(center - _REACH * sd, 0.0)
    high = center + _REACH * sd
    has_begun = t > 0
    root = jnp.cbrt(jnp.where(has_begun, t, 1.0) / mean)
    split = jnp.where(has_begun, jnp.clip(root, low, high), low)

    def part(begin, end, count):
        u, weights = np.polynomial.legendre.leggauss(count)
        w = begin + (end - begin) * (0.5 * (u + 1))
        w = jnp.maximum(w, 1e-30)
        log_density = (3 * shape - 1) * jnp.log(w) - shape * (w**3 - 1)
        return mean * w**3, (end - begin) * weights * jnp.exp(log_density)

    delays, weights = part(low, split, SOLUTION_NODES)
    history_delays, history_weights = part(split, high, HISTORY_NODES)
    total = jnp.sum(weights) + jnp.sum(history_weights)
    return KernelNodes(delays, weights / total, history_delays, history_weights / total)


def integral_before(history, t: jax.Array) -> jax.Array:
    r"""$-\int_t^0 X_0(s)\, ds$ for t < 0: the integral of x, continued into the
    history. A uniform distribution of delays is read from it."""
    u, weights = np.polynomial.legendre.leggauss(32)
    times = t * (0.5 * (u + 1))
    states = jax.vmap(history)(times)
    return t * 0.5 * jnp.sum(weights[:, None] * states, axis=0)
