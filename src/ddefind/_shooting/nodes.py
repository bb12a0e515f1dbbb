"""The nodes of a disturbed path, and how the path is read between them.

The path is known by its states at the nodes: at time zero, at the times of the data,
and as many times between them as the delay asks for. Between two nodes it is a cubic,
whose slopes at the nodes are those of parabolas through three neighbours."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._problem.problem import Problem


@final
class Nodes(eqx.Module):
    """The times of the nodes, the first of which is zero, and which of them are the
    times of the data."""

    t: Any  # [n + 1]
    at_data: Any  # [N]


def place_nodes(times: np.ndarray, longest: float, end: float) -> Nodes:
    """Nodes at zero, at the `times` of the data, and at the time `end`, if that is
    later. Gaps between them that are longer than `longest` are divided evenly, into a
    power of two of parts: few numbers of nodes, and so few compiled programs, serve
    many delays."""
    fixed = np.unique(np.concatenate([[0.0], times, [max(end, times[-1])]]))
    gaps = np.diff(fixed)
    parts = 2 ** np.ceil(np.log2(np.maximum(gaps / longest, 1.0)) - 1e-9).astype(int)
    begins, sizes = np.repeat(fixed[:-1], parts), np.repeat(gaps / parts, parts)
    first = np.repeat(np.cumsum(parts) - parts, parts)
    t = np.append(begins + (np.arange(len(begins)) - first) * sizes, fixed[-1])
    return nodes_at(t, times)


def nodes_at(t: np.ndarray, times: np.ndarray) -> Nodes:
    """The nodes at the times `t`, among which are the `times` of the data."""
    return Nodes(t, np.searchsorted(t, times - 1e-9 * t[-1]))


@final
class DisturbedPath(eqx.Module):
    """A path through the states `x` at the nodes; before time zero it is the history.

    `slopes` are those of the parabola through each node and its neighbours."""

    problem: Problem
    t: jax.Array  # [n + 1]
    x: jax.Array  # [n + 1, d]
    slopes: jax.Array  # [n + 1, d]

    def __call__(self, s: jax.Array) -> jax.Array:
        """The state at the time s."""
        k = jnp.clip(jnp.searchsorted(self.t, s, side="right") - 1, 0, len(self.t) - 2)
        h = self.t[k + 1] - self.t[k]
        u = (s - self.t[k]) / h
        left, right = self.x[k], self.x[k + 1]
        m0, m1 = h * self.slopes[k], h * self.slopes[k + 1]
        rise = right - left
        cubic = left + u * (
            m0 + u * (3 * rise - 2 * m0 - m1 + u * (m0 + m1 - 2 * rise))
        )
        before = self.problem.history(jnp.minimum(s, 0.0))
        return jnp.where(s < 0, before, cubic)


def path_through(problem: Problem, t: Any, x: jax.Array) -> DisturbedPath:
    """The path through the states `x` at the times `t`."""
    h = jnp.diff(t)[:, None]
    secants = jnp.diff(x, axis=0) / h
    inner = (secants[:-1] * h[1:] + secants[1:] * h[:-1]) / (h[:-1] + h[1:])
    slopes = jnp.concatenate([secants[:1], inner, secants[-1:]])
    return DisturbedPath(problem, jnp.asarray(t), x, slopes)
