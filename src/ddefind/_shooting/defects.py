r"""A path through nodes, and its defects: deviations from the equation between nodes.

From each node $t_k$ the equation is solved to the next one, with the states of the path
as its past. The *defect* is the difference between the state of the path and the state
from the equation,

$$w_k = x_{k+1} - \Phi(x_k;\ \text{path}, \theta).$$

If the system is disturbed by noise of the intensity $\sigma$, so that
$dx = F\,dt + \sigma\,dW$, then $w_k$ has the variance $\sigma^2 (t_{k+1} - t_k)$,
independently of all others.

The path is given by its states at the nodes: at time zero, at the times of the data,
and at times between them if the delay needs it. Between two nodes it is a cubic, with
the slopes of parabolas through three neighbours."""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._problem.delays import AbstractDistributedDelay, in_structure, is_delay
from .._problem.general_delays import delay_at
from .._problem.problem import Problem
from .._search.normal_equations import LeastSquaresModel


@final
class PathNodes(eqx.Module):
    """The times of the nodes, from zero on, and the numbers of the times of the
    data."""

    t: Any  # [n + 1]
    at_data: Any  # [N]


def place_nodes(times: np.ndarray, longest: float, end: float) -> PathNodes:
    """Place nodes at zero, at the `times` of the data, and at `end`, if that is later.
    Gaps that are longer than `longest` are divided evenly, into a power of two of
    parts: few numbers of nodes, and so few compiled programs, serve many delays."""
    fixed = np.unique(np.concatenate([[0.0], times, [max(end, times[-1])]]))
    gaps = np.diff(fixed)
    parts = 2 ** np.ceil(np.log2(np.maximum(gaps / longest, 1.0)) - 1e-9).astype(int)
    begins, sizes = np.repeat(fixed[:-1], parts), np.repeat(gaps / parts, parts)
    first = np.repeat(np.cumsum(parts) - parts, parts)
    t = np.append(begins + (np.arange(len(begins)) - first) * sizes, fixed[-1])
    return nodes_at(t, times)


def nodes_at(t: np.ndarray, times: np.ndarray) -> PathNodes:
    """Return the nodes at the times `t`, among which are the `times` of the data."""
    return PathNodes(t, np.searchsorted(t, times - 1e-9 * t[-1]))


@final
class DisturbedPath(eqx.Module):
    """A path through the states `x` at the nodes; before time zero it is the history.

    `slopes` are those of the parabola through each node and its neighbours."""

    problem: Problem
    t: jax.Array  # [n + 1]
    x: jax.Array  # [n + 1, d]
    slopes: jax.Array  # [n + 1, d]

    def __call__(self, s: jax.Array) -> jax.Array:
        """Return the state at the time s."""
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
    """Return the path through the states `x` at the times `t`."""
    h = jnp.diff(t)[:, None]
    secants = jnp.diff(x, axis=0) / h
    inner = (secants[:-1] * h[1:] + secants[1:] * h[:-1]) / (h[:-1] + h[1:])
    slopes = jnp.concatenate([secants[:1], inner, secants[-1:]])
    return DisturbedPath(problem, jnp.asarray(t), x, slopes)


# The number of delays that represent a distribution.
_KERNEL_NODES = 48


class LinearisedDefects(NamedTuple):
    """The defects, the observed quantities at the times of the data, and the state at
    time zero, with derivatives for all unknowns: the states at the nodes 1 to n, and
    then the free values."""

    defects: Any  # [n, d]
    observed: Any  # [N, k]
    start: Any  # [d]
    defect_jacobian: Any  # [n, d, n d + p]
    observed_jacobian: Any  # [N, k, n d + p]
    start_jacobian: Any  # [d, n d + p]


def linearise(
    model: LeastSquaresModel, nodes: PathNodes, x: np.ndarray, theta: np.ndarray
) -> LinearisedDefects:
    """Return the linearisation at the states `x` of the nodes 1 to n, [n, d], and the
    free values `theta`."""
    unknowns = np.concatenate([np.ravel(x), theta])
    values, columns = _with_derivatives(model, nodes, unknowns, None)
    return LinearisedDefects(*map(np.asarray, (*values, *columns)))


def read_path(
    model: LeastSquaresModel,
    nodes: PathNodes,
    x: np.ndarray,
    theta: np.ndarray,
    times: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the observed quantities of a path at any `times`, [times, k], and their
    derivatives for all unknowns."""
    unknowns = np.concatenate([np.ravel(x), theta])
    value, columns = _with_derivatives(model, nodes, unknowns, times)
    return np.asarray(value), np.asarray(columns)


@eqx.filter_jit
def _with_derivatives(
    model: LeastSquaresModel, nodes: PathNodes, unknowns: Any, times: Any
):
    """Return the defects, the observed quantities at the times of the data, and the
    first state; or, with `times`, the observed quantities there. Derivatives have one
    more axis, the last."""
    d = model.dimension
    size = (nodes.t.shape[0] - 1) * d

    def values(unknowns):
        x, theta = unknowns[:size].reshape(-1, d), unknowns[size:]
        learned = model.free.join_values(theta, model.learned)
        problem = eqx.combine(learned, model.fixed)
        states = jnp.concatenate([problem.start[None], x])
        if times is None:
            defects = _defects(problem, nodes, states)
            at_data = jnp.asarray(nodes.t)[nodes.at_data]
            observed = _observe(problem, states[nodes.at_data], at_data)
            return defects, observed, states[0]
        path = path_through(problem, nodes.t, states)
        return _observe(problem, jax.vmap(path)(jnp.asarray(times)), times)

    def column(tangent):
        return jax.jvp(values, (unknowns,), (tangent,))

    identity = jnp.eye(unknowns.shape[0])
    return jax.vmap(column, out_axes=(None, -1))(identity)


def _defects(problem: Problem, nodes: PathNodes, states: jax.Array) -> jax.Array:
    """Return the defect of each step."""
    path, t = path_through(problem, nodes.t, states), jnp.asarray(nodes.t)
    arrived = jax.vmap(lambda t, h, x: _step(problem, path, t, h, x))(
        t[:-1], jnp.diff(t), states[:-1]
    )
    return states[1:] - arrived


def _observe(problem: Problem, states: jax.Array, times: Any) -> jax.Array:
    """Return the observed quantities of states at some times."""
    if problem.observe is None:
        return states
    return jax.vmap(problem.observe)(states, jnp.asarray(times))


def _step(problem: Problem, path: DisturbedPath, t, h, x: jax.Array) -> jax.Array:
    """Make a step of the classical Runge-Kutta method from the state x at the time
    t."""
    k1 = _slope(problem, path, t, x)
    k2 = _slope(problem, path, t + h / 2, x + h / 2 * k1)
    k3 = _slope(problem, path, t + h / 2, x + h / 2 * k2)
    k4 = _slope(problem, path, t + h, x + h * k3)
    return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def _slope(problem: Problem, path: DisturbedPath, t, x: jax.Array) -> jax.Array:
    """Compute F at the time t in the state x, with delayed states from the path."""
    taus, ys = [], []
    for leaf in jax.tree.leaves(problem.tau, is_leaf=is_delay):
        tau, y = _delayed(leaf, path, t, x)
        taus.append(jnp.asarray(tau))
        ys.append(y)
    tau = problem.tau
    return problem.rhs(x, in_structure(tau, ys), in_structure(tau, taus), t)


def _delayed(leaf: Any, path: DisturbedPath, t, x: jax.Array):
    """Return a delay and its delayed state, or the means under a distribution."""
    tau = delay_at(leaf, t, x)
    if not isinstance(leaf, AbstractDistributedDelay):
        return tau, path(t - tau)
    s, weights = leaf().quadrature(_KERNEL_NODES)
    return tau, jnp.sum(weights[:, None] * jax.vmap(path)(t - s), axis=0)
