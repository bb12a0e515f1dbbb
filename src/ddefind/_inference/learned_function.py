"""The function that a network has learned, with its band; and the arguments with which
a network is called along the fitted trajectory."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._problem.delays import AbstractDistributedDelay, in_structure, is_delay
from .._problem.general_delays import AbstractVaryingDelay, delay_at, has_slope
from .._problem.kernels import AbstractKernel
from .._problem.network import Network, networks_in, numbered_networks, probing
from .._problem.problem import Problem
from .._util.errors import check_level, shown
from .._util.shown import frame_of_rows
from .covariance import Uncertainty, propagate

# A mean over the past is taken over this many equally likely delays, which are found in
# a table of the delays of a distribution.
_LIKELY_DELAYS, _TABULATED = 64, 4001
# The number of times at which a history is called.
_PAST_TIMES = 101
# The numbers of points of a curve in the visited range and in each margin beyond it,
# and the width of a margin as a share of the range.
_POINTS, _MARGIN_POINTS, _MARGIN = 101, 15, 0.15
# A function of several arguments is drawn for this many values of the second one.
_SECOND_VALUES = 3

# The states at a vector of times, before time zero those of the history.
Trajectory = Callable[[Any], jax.Array]


def visited_arguments(
    problem: Problem, trajectory: Trajectory, t: np.ndarray
) -> dict[int, np.ndarray]:
    """Find the arguments of each network of a problem at the times `t` of a trajectory,
    [calls, inputs], by its number among the networks of the problem. Networks of a
    history are called at times of the past that the longest delay reaches.

    Networks that are called inside of a condition or loop of JAX are left out, because
    their arguments cannot be seen."""
    problem = numbered_networks(problem)
    x = trajectory(t)
    states, lengths, longest = [], [], 0.0
    for leaf in jax.tree.leaves(problem.tau, is_leaf=is_delay):
        state, length, earliest = _delayed(leaf, trajectory, t, x)
        states.append(state)
        lengths.append(length)
        longest = max(longest, float(earliest))
    past = in_structure(problem.tau, states), in_structure(problem.tau, lengths)
    times = np.linspace(-longest, 0.0, _PAST_TIMES)
    try:
        found = _called_in_equation(problem, (x, *past, jnp.asarray(t)))
        found |= _called_in_history(problem, jnp.asarray(times))
    except jax.errors.UnexpectedTracerError:
        return {}
    return {
        number: np.asarray(calls).reshape(-1, calls.shape[-1])
        for number, calls in found.items()
    }


def _delayed(
    leaf: Any, trajectory: Trajectory, t: np.ndarray, x: jax.Array
) -> tuple[Any, Any, Any]:
    """Return what the right-hand side gets for a delay at the times `t`, the delayed
    states and the lengths of the delay; and the longest delay."""
    length = jax.vmap(lambda t, x: delay_at(leaf, t, x))(jnp.asarray(t), x)
    if isinstance(leaf, AbstractDistributedDelay):
        likely = _likely_delays(leaf())
        states = jnp.mean(jnp.stack([trajectory(t - s) for s in likely]), axis=0)
        return states, length, likely[-1]
    earlier = t - length
    states = trajectory(earlier)
    if has_slope(leaf):
        states = jax.jvp(trajectory, (earlier,), (jnp.ones_like(earlier),))
    return states, length, jnp.max(length)


def _likely_delays(kernel: AbstractKernel) -> np.ndarray:
    """Return delays that are equally likely under a density, in increasing order."""
    delays = np.asarray(kernel.delay(jnp.linspace(*kernel.span(), _TABULATED)))
    shares = (np.arange(_LIKELY_DELAYS) + 0.5) / _LIKELY_DELAYS
    return np.interp(shares, np.asarray(kernel.share(delays)), delays)


@eqx.filter_jit
def _called_in_equation(problem: Problem, rows: Any) -> dict[int, jax.Array]:
    """Find the arguments of networks in the right-hand side, in delays and in `observe`
    for each of the `rows` of x, y, tau and t."""

    def call(x: Any, y: Any, tau: Any, t: Any) -> None:
        problem.rhs(x, y, tau, t)
        for leaf in jax.tree.leaves(problem.tau, is_leaf=is_delay):
            if isinstance(leaf, AbstractVaryingDelay):
                leaf(t, x)
        if problem.observe is not None:
            problem.observe(x, t)

    return _arguments_in(call, *rows)


@eqx.filter_jit
def _called_in_history(problem: Problem, times: jax.Array) -> dict[int, jax.Array]:
    """Find the arguments of networks in the history at some times."""
    has_networks = networks_in(problem.history)
    return _arguments_in(problem.history, times) if has_networks else {}


def _arguments_in(call: Callable[..., Any], *rows: Any) -> dict[int, jax.Array]:
    """Find the arguments of all networks that `call` calls for each of the rows."""

    def at(*row: Any) -> dict[int, jax.Array]:
        with probing(None) as probe:
            call(*row)
        return {number: jnp.stack(calls) for number, calls in probe.inputs.items()}

    # Functions compiled inside would hide the arguments.
    with jax.disable_jit():
        return jax.vmap(at)(*rows)


class WeightShares(NamedTuple):
    """Precision of the weights of a network: the `uncertainty` of a fit, and for each
    weight the number of its free value, -1 for one that is known."""

    uncertainty: Uncertainty
    places: np.ndarray


@final
@dataclass(frozen=True)
class FunctionCurve:
    """Learned function along its first argument, with the others held.

    - `label`: the value of the second argument, as "y = 0.5"; empty without one.
    - `output`: which component of the result it is.
    - `inputs`: all arguments, of shape (points, arguments).
    - `value`, `low`, `high`: the function and its band.
    - `visited`: which points are in the range that the fitted trajectory visited."""

    label: str
    output: int
    inputs: np.ndarray
    value: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    visited: np.ndarray

    @property
    def u(self) -> np.ndarray:
        """The first argument."""
        return self.inputs[:, 0]


@final
@dataclass(frozen=True)
class LearnedFunction:
    r"""Function that a network has learned: `fit.function("NN")`.

    `f(u)` are its values at a number or an array, with several arguments `f(u, v)`; a
    network with several outputs has a last axis for them. `f.band(u)` is its confidence
    band, and `f.plot()` draws both.

    - `name`: of the network.
    - `arguments`: what its arguments are in the equation, as `x(t - tau)`.
    - `visited`: the arguments of the network along the fitted trajectory at the times
      of the data, with a row for each call.
    - `determined`: how many of its weights the data determine; None after gradient
      descent.

    With the derivatives J of the function for all free values, and their covariance C,
    the standard deviation of the function is $\sqrt{J C J^T}$ (the delta method). The
    prior of the weights takes part in C."""

    name: str
    arguments: tuple[str, ...]
    visited: np.ndarray = field(repr=False)
    network: Network = field(repr=False)
    determined: float | None
    shares: WeightShares | None = field(repr=False)

    @property
    def range(self) -> tuple[tuple[float, float], ...]:
        """The range of each argument that was visited: beyond, nothing is known."""
        lows, highs = self.visited.min(axis=0), self.visited.max(axis=0)
        return tuple(zip(lows.tolist(), highs.tolist()))

    @property
    def weight_count(self) -> int:
        """The number of weights."""
        return sum(a.size for a in (*self.network.weights, *self.network.biases))

    def __call__(self, *arguments: Any) -> np.ndarray:
        """Evaluate the function at numbers or arrays, one for each argument."""
        inputs, shape = self._inputs(arguments)
        return self._shaped(np.asarray(_values(self.network, inputs)), shape)

    def band(
        self, *arguments: Any, level: float = 0.95
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the confidence band at numbers or arrays, one for each
        argument. The band of a network that is positive or has bounds keeps to them."""
        check_level(level)
        inputs, shape = self._inputs(arguments)
        low, high = self._ends(inputs, level)
        return self._shaped(low, shape), self._shaped(high, shape)

    def curves(self, level: float = 0.95) -> list[FunctionCurve]:
        """Evaluate the function over the visited range and a little beyond it, as it is
        drawn.

        With several arguments the first one varies. The second has three values, the
        medians of the lower, middle and upper third of what was visited, and the first
        varies over the range of that third; further arguments have their median there.
        """
        check_level(level)
        found = []
        for label, inputs, is_visited in self._lines():
            values = np.asarray(_values(self.network, inputs))
            ends = None if self.shares is None else self._ends(inputs, level)
            for i, value in enumerate(values.T):
                low, high = (None, None) if ends is None else (e[:, i] for e in ends)
                curve = FunctionCurve(label, i, inputs, value, low, high, is_visited)
                found.append(curve)
        return found

    def rows(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return `curves` as a table: the arguments, the value with its band, and
        whether the first argument is in the visited range. Several outputs are counted
        from 0."""
        rows = []
        for curve in self.curves(level):
            for i, inputs in enumerate(curve.inputs.tolist()):
                row: dict[str, Any] = dict(zip(self.arguments, inputs))
                if self.network.outputs > 1:
                    row["output"] = curve.output
                row["value"] = float(curve.value[i])
                if curve.low is not None and curve.high is not None:
                    row |= {"low": float(curve.low[i]), "high": float(curve.high[i])}
                rows.append({**row, "visited": bool(curve.visited[i])})
        return rows

    def to_frame(self, level: float = 0.95) -> Any:
        """Return the `rows` as a pandas data frame."""
        return frame_of_rows(self.rows(level))

    def plot(self, ax: Any = None) -> Any:
        """Draw the function with its band, dashed and paler beyond the visited range,
        with matplotlib. `ax` are axes to draw on, one for each output."""
        from ..plots import plot_functions

        return plot_functions([self], ax=ax)

    @cached_property
    def note(self) -> str:
        """A sentence if the data do not determine the level of the function, its mean
        over the visited range, and otherwise an empty text.

        Another part of the equation can then compensate for a constant that is added,
        as in `NN_a(x) + NN_b(y)`, and the prior chooses one."""
        if self.shares is None:
            return ""
        slopes = _values_and_slopes(self.network, self.visited)[1]
        if _prior_share(np.mean(np.asarray(slopes), axis=0), self.shares) < 0.5:
            return ""
        return (
            f"The data do not determine the level of `{self.name}`, only its form: "
            "another part of the equation can compensate for a constant added to it. "
            "The prior alone chose this level and the width of the band."
        )

    def __str__(self) -> str:
        places = [
            f"{name} from {low:.4g} to {high:.4g}"
            for name, (low, high) in zip(self.arguments, self.range)
        ]
        about = f"{self.weight_count} weights"
        if self.determined is not None:
            about = f"{self.determined:.0f} of {about} determined by the data"
        call = f"{self.name}({', '.join(self.arguments)})"
        lines = [f"{call}, learned for {', '.join(places)}; {about}.", self.note]
        return "\n".join(filter(None, lines))

    def __repr__(self) -> str:
        return f"<{str(self).splitlines()[0].removesuffix('.')}>"

    def _inputs(self, arguments: tuple[Any, ...]) -> tuple[np.ndarray, tuple[int, ...]]:
        """Return the arguments as rows, and the shape they are broadcast to."""
        if len(arguments) != len(self.arguments):
            wanted = ", ".join(self.arguments)
            count = "1 argument" if len(arguments) == 1 else f"{len(arguments)} of them"
            raise TypeError(
                f"`{self.name}` is a function of ({wanted}): give a number or an array "
                f"for each, but got {count}."
            )
        try:
            arrays = np.broadcast_arrays(*(np.asarray(a, float) for a in arguments))
        except (TypeError, ValueError):
            given = " and ".join(map(shown, arguments))
            raise ValueError(
                f"The arguments of `{self.name}` must be numbers, or arrays of the "
                f"same shape, but got {given}."
            ) from None
        rows = np.stack([array.ravel() for array in arrays], axis=1)
        return rows, arrays[0].shape

    def _shaped(self, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        outputs = self.network.outputs
        return values.reshape(shape if outputs == 1 else (*shape, outputs))

    def _ends(self, inputs: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Compute both ends of the band, [points, outputs]: before the shape of the
        network is applied, so that the band keeps to it."""
        if self.shares is None:
            raise ValueError(
                "This fit is by gradient descent, which computes no errors, so that "
                f"`{self.name}` has no band. Fit with `optimizer=dd.LeastSquares()`."
            )
        values, slopes = map(np.asarray, _values_and_slopes(self.network, inputs))
        uncertainty = self.shares.uncertainty
        gradient = _for_free_values(slopes, self.shares)
        sd = propagate(uncertainty, gradient, np.ptp(values, axis=0)).sd
        bend, straighten, rise = _shape_of(self.network)
        z = straighten(values)
        half = uncertainty.quantile(level) * sd / rise(z)
        return bend(z - half), bend(z + half)

    def _lines(self) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Return the arguments along each curve, with its label, and which are visited:
        a curve for each group with a similar second argument."""
        found, groups = [], [self.visited]
        if len(self.arguments) > 1 and np.ptp(self.visited[:, 1]) > 0:
            order = np.argsort(self.visited[:, 1], kind="stable")
            groups = np.array_split(self.visited[order], _SECOND_VALUES)
        for group in filter(len, groups):
            u, is_visited = _along(group[:, 0])
            inputs = np.tile(np.median(group, axis=0), (len(u), 1))
            inputs[:, 0] = u
            label = ""
            if len(self.arguments) > 1:
                label = f"{self.arguments[1]} = {inputs[0, 1]:.3g}"
            found.append((label, inputs, is_visited))
        return found


def _along(visited: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values over the visited range and a margin, and which are inside."""
    low, high = float(visited.min()), float(visited.max())
    margin = _MARGIN * ((high - low) or abs(high) or 1.0)
    before = np.linspace(low - margin, low, _MARGIN_POINTS, endpoint=False)
    after = np.linspace(high + margin, high, _MARGIN_POINTS, endpoint=False)[::-1]
    inside = np.linspace(low, high, _POINTS) if high > low else np.array([low])
    u = np.concatenate([before, inside, after])
    return u, (u >= low) & (u <= high)


@eqx.filter_jit
def _values(network: Network, inputs: Any) -> jax.Array:
    return jax.vmap(network)(jnp.asarray(inputs))


@eqx.filter_jit
def _values_and_slopes(network: Network, inputs: Any) -> tuple[jax.Array, jax.Array]:
    """Compute the values of a network [points, outputs], and their derivatives for its
    weights in the order of its arrays, [points, outputs, weights]."""

    def weights_of(network: Network) -> Any:
        return network.weights, network.biases

    def at(u: Any) -> tuple[jax.Array, jax.Array]:
        def value(weights: Any) -> jax.Array:
            return eqx.tree_at(weights_of, network, weights)(u)

        slopes = jax.tree.leaves(jax.jacrev(value)(weights_of(network)))
        flat = [slope.reshape(slope.shape[0], -1) for slope in slopes]
        return network(u), jnp.concatenate(flat, axis=1)

    return jax.vmap(at)(jnp.asarray(inputs))


def _for_free_values(slopes: np.ndarray, shares: WeightShares) -> np.ndarray:
    """Turn derivatives for weights into derivatives for free values."""
    gradient = np.zeros((*slopes.shape[:-1], len(shares.uncertainty.theta)))
    for place, slope in zip(shares.places.tolist(), np.moveaxis(slopes, -1, 0)):
        if place >= 0:
            gradient[..., place] += slope
    return gradient


def _prior_share(slopes: np.ndarray, shares: WeightShares) -> float:
    r"""Compute to which share the prior, and not the data, limits quantities with such
    derivatives for the weights, [quantities, weights]; return the largest share.

    With the covariance C of the free values, in units of the residual variance, and the
    information A of their priors, the variance $g^T C g = g^T C (H - A) C g + g^T C A C
    g$ has a part for the information H - A of the data and one for the priors; the
    share is that of the second part."""
    gradient, part = _for_free_values(slopes, shares), shares.uncertainty
    whole, gradient = part.whole, part.for_whole(gradient)
    priors = whole.setup.model.priors
    if priors is None:
        return 0.0
    spread = gradient @ whole.covariance_factor
    moved = spread @ whole.covariance_factor.T
    variance = np.sum(spread**2, axis=1) * whole.residual_variance
    limited = np.sum(np.asarray(priors.weight) * moved**2, axis=1)
    return float(np.max(limited / np.maximum(variance, 1e-300)))


# A map of numbers to numbers.
_Map = Callable[[np.ndarray], np.ndarray]


def _shape_of(network: Network) -> tuple[_Map, _Map, _Map]:
    """Return the map from the last layer z of a network to its value, its inverse, and
    its derivative. Where nothing limits the value, z is the value."""
    size, offset = np.asarray(network.size), np.asarray(network.offset)
    tiny = np.finfo(float).tiny

    if network.positive:

        def above(value: np.ndarray) -> np.ndarray:
            share = np.maximum((value - offset) / size, tiny)
            return share + np.log(-np.expm1(-share))

        return (
            lambda z: size * np.logaddexp(0.0, z) + offset,
            above,
            lambda z: size * _logistic(z),
        )
    if network.bounds is not None:

        def between(value: np.ndarray) -> np.ndarray:
            share = np.clip((value - offset) / size, tiny, 1 - 1e-16)
            return np.log(share) - np.log1p(-share)

        return (
            lambda z: size * _logistic(z) + offset,
            between,
            lambda z: np.maximum(size * _logistic(z) * _logistic(-z), tiny),
        )
    return lambda z: z, lambda value: value, np.ones_like


def _logistic(z: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -z))
