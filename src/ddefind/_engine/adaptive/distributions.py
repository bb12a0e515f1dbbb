r"""Distributed delays: the mean of the past under a kernel and, for a uniform one, the
integral of the history.

With the substitution s = s(w) of a kernel, and the density f of w,

$$y(t) = \int g(s)\, x(t - s)\, ds = \frac{\int f(w)\, x(t - s(w))\, dw}{\int f(w)\,
  dw}.$$

The integral is split at s = t, where the history ends and x has a kink, and each part
has Gauss's quadrature. The weights add up to one, so that constants are exact.

A stage of a step reads some of the nodes from the step itself, which may be repeated.
The sum over all others is computed before the step, once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._problem.kernels import AbstractKernel
from ..._util.arrays import read, write
from .pieces import AbstractRows, StagePast, evaluate, unpack


class KernelNodes(NamedTuple):
    """The delays s and weights of a quadrature, on the solution and on the history."""

    delays: jax.Array
    weights: jax.Array
    history_delays: jax.Array
    history_weights: jax.Array


def kernel_nodes(kernel: AbstractKernel, t: jax.Array) -> KernelNodes:
    """Return the quadrature of a kernel at the time `t`."""
    low, high = kernel.span()
    has_begun = t > 0
    root = kernel.place(jnp.where(has_begun, t, 1.0))
    split = jnp.where(has_begun, jnp.clip(root, low, high), low)

    def part(begin, end, count):
        u, weights = np.polynomial.legendre.leggauss(count)
        w = begin + (end - begin) * (0.5 * (u + 1))
        return kernel.delay(w), (end - begin) * weights * jnp.exp(kernel.log_density(w))

    assert kernel.nodes is not None
    delays, weights = part(low, split, kernel.nodes[0])
    history_delays, history_weights = part(split, high, kernel.nodes[1])
    total = jnp.sum(weights) + jnp.sum(history_weights)
    total = jnp.where(kernel.is_impossible, jnp.nan, total)
    return KernelNodes(delays, weights / total, history_delays, history_weights / total)


class KernelSums(NamedTuple):
    """The known sums of a kernel before a step is made: for each stage the nodes, which
    of them lie inside of the step, and the sum over all others, the history among
    them."""

    nodes: KernelNodes
    is_inside: jax.Array  # [stages, nodes]
    outside: jax.Array  # [stages, d]

    def stage(self, s: Any) -> "KernelSums":
        """Return what belongs to one stage."""
        return jax.tree.map(lambda table: read(table, s), self)

    def mean(self, t: Any, past: StagePast, d: int) -> tuple[jax.Array, jax.Array]:
        """Return the mean at the time `t` of a stage, with the guess of its `past` for
        what is inside of the step; and the weight of that."""
        guess = past.guess[:, :d]
        weights = jnp.where(self.is_inside, self.nodes.weights, 0.0)

        def add(n, total):
            u = (t - read(self.nodes.delays, n) - past.t) / past.length
            u = jnp.where(read(self.is_inside, n), u, 0.0)
            return total + read(weights, n) * evaluate(guess, u)[0]

        # The inner nodes come first. A loop of fixed length has a reverse mode.
        is_whole, count = past.rows.in_reverse, self.is_inside.shape[-1]
        count = count if is_whole else jnp.sum(self.is_inside)
        total = lax.fori_loop(0, count, add, self.outside)
        return total, jnp.sum(lax.stop_gradient(weights))


def kernel_sums(
    kernel: AbstractKernel,
    history: Callable[[Any], jax.Array],
    rows_of: Callable[[Any], AbstractRows],
    times: jax.Array,
    start: Any,
    first: int,
    hints: jax.Array,
    d: int,
) -> tuple[KernelSums, jax.Array]:
    """Return the sums of a kernel for the stages at the given `times` of the step from
    `start`. Its nodes are the reads from number `first` on; `hints` [stages, reads] say
    where they were found."""
    nodes = jax.vmap(lambda t: kernel_nodes(kernel, t))(times)
    is_inside = lax.stop_gradient(times[:, None] - nodes.delays > start)
    inside_count = jnp.sum(is_inside, axis=1)
    earlier = jnp.minimum(times[:, None] - nodes.history_delays, 0.0)
    before = jax.vmap(jax.vmap(history))(earlier)[..., :d]
    outside = jnp.sum(nodes.history_weights[..., None] * before, axis=1)

    def stage(s, carry):
        outside, hints = carry
        rows, t = rows_of(s), read(times, s)
        delays, weights = read(nodes.delays, s), read(nodes.weights, s)
        outer = ~read(is_inside, s)

        def add(n, carry):
            total, hints = carry
            time = t - read(delays, n)
            row, hints = rows.row(first + n, lax.stop_gradient(time), hints)
            coefficients, origin, length = unpack(row, rows.dimension)
            length = jnp.where(length > 0, length, 1.0)
            state = evaluate(coefficients, (time - origin) / length)[0][:d]
            weight = jnp.where(read(outer, n), read(weights, n), 0.0)
            return total + jnp.where(weight > 0, weight * state, 0.0), hints

        # The inner nodes come first. A loop of fixed length has a reverse mode.
        begin = 0 if rows.in_reverse else read(inside_count, s)
        carry = read(outside, s), read(hints, s)
        total, found = lax.fori_loop(begin, is_inside.shape[1], add, carry)
        return write(outside, s, total), write(hints, s, found)

    carry = outside, hints
    outside, hints = lax.fori_loop(0, times.shape[0], stage, carry)
    return KernelSums(nodes, is_inside, outside), hints


def integral_before(history, t: jax.Array) -> jax.Array:
    r"""Return $-\int_t^0 X_0(s)\, ds$ for t < 0: the integral of x, continued into the
    history. A uniform distribution of delays is read from it."""
    u, weights = np.polynomial.legendre.leggauss(32)
    times = t * (0.5 * (u + 1))
    states = jax.vmap(history)(times)
    return t * 0.5 * jnp.sum(weights[:, None] * states, axis=0)
