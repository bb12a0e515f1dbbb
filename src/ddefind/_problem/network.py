"""`Network`, the neural network that stands for an unknown function in a problem."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


@final
@dataclass
class NetworkProbe:
    """A record of the calls of networks with a number.

    While `probing`, the arguments of each call are added to `inputs`. The network
    returns the entry of `outputs` for its number, or zeros; if `outputs` is None, it
    returns its usual result."""

    outputs: Mapping[int, Any] | None
    inputs: dict[int, list[jax.Array]] = field(default_factory=dict)


_PROBE: ContextVar[NetworkProbe | None] = ContextVar("probe", default=None)


@contextmanager
def probing(outputs: Mapping[int, Any] | None) -> Iterator[NetworkProbe]:
    """Record the calls of networks with a number: see `NetworkProbe`."""
    probe = NetworkProbe(outputs)
    token = _PROBE.set(probe)
    try:
        yield probe
    finally:
        _PROBE.reset(token)


@final
class Network(eqx.Module):
    r"""A neural network for an unknown function, whose weights a fit learns:

    $$N(u) = s\,\bigl(W_L \tanh(\dots \tanh(W_0\,(u - m) / \sigma + c_0) \dots) +
      c_L\bigr) + o.$$

    It stands wherever a function can stand: as the whole right-hand side of a
    `Problem`, as its history, or as a term in either, in a field of an Equinox module
    or as the default of an argument of a function. It is called with numbers and
    vectors, `net(y)` or `net(x, y, t)`, and its result has shape (outputs,). How many
    inputs it gets, the problem finds out.

    **Arguments**

    - `width`: the number of units in each hidden layer.
    - `depth`: the number of hidden layers, L.
    - `outputs`: the number of components of the result. As a right-hand side or history
      a network has one for each component of the state.
    - `positive`: whether $N(u) > 0$: the last layer passes through $\log(1 + e^z)$.
    - `increasing`, `decreasing`: whether N increases, or decreases, with each of its
      inputs. Each weight w then counts as $\log(1 + e^w) / \sqrt n$ in a layer of n
      inputs; for a decreasing network the last layer changes its sign.
    - `through_zero`: whether $N(0) = 0$: the value at zero is subtracted.
    - `bounds`: `(low, high)`, between which the result stays: $\mathrm{low} +
      (\mathrm{high} - \mathrm{low}) / (1 + e^{-z})$ of the last layer.
    - `seed`: of the initial weights, which are normal, with the variance 1/n in a layer
      of n inputs.

    The weights $W_l$ and $c_l$ are parameters. The centre m and the scale $\sigma$ of
    the inputs, the size s and the offset o of the result are constants: `dd.fit` takes
    them from the data, so that all weights are of the order of one.

    >>> import ddefind as dd
    >>> def rhs(x, y, tau, t, g=1.0, feedback=dd.Network(width=8, positive=True)):
    ...     return feedback(y) - g * x
    >>> problem = dd.Problem(rhs, dd.Constant(0.5), tau=2.0)
    >>> problem.rhs.feedback.inputs, problem.rhs.feedback(0.3).shape
    (1, (1,))
    """

    weights: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]
    center: np.ndarray
    scale: np.ndarray
    size: np.ndarray
    offset: np.ndarray
    width: int = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    positive: bool = eqx.field(static=True)
    increasing: bool = eqx.field(static=True)
    decreasing: bool = eqx.field(static=True)
    through_zero: bool = eqx.field(static=True)
    bounds: tuple[float, float] | None = eqx.field(static=True)
    # Of the initial weights, until they are drawn.
    seed: int | None = eqx.field(static=True)
    # The number of the network while it is probed.
    number: int | None = eqx.field(static=True)

    def __init__(
        self,
        width: int = 16,
        depth: int = 1,
        *,
        outputs: int = 1,
        positive: bool = False,
        increasing: bool = False,
        decreasing: bool = False,
        through_zero: bool = False,
        bounds: tuple[float, float] | None = None,
        seed: int = 0,
    ):
        _check_whole("width", width, 1)
        _check_whole("outputs", outputs, 1)
        _check_whole("depth", depth, 0)
        _check_whole("seed", seed, 0)
        self.bounds = _checked_bounds(bounds)
        for name, flag in dict(
            positive=positive,
            increasing=increasing,
            decreasing=decreasing,
            through_zero=through_zero,
        ).items():
            if not isinstance(flag, bool | np.bool_):
                raise ValueError(f"`{name}` must be True or False, but got {flag!r}.")
            setattr(self, name, bool(flag))
        _check_shape(self)
        self.weights = self.biases = ()
        # Without a hidden layer there is no width.
        self.width, self.depth = width if depth > 0 else 1, depth
        self.outputs = outputs
        self.seed, self.number = seed, None
        low, high = self.bounds or (0.0, 1.0)
        self.center, self.scale = np.zeros(0), np.ones(0)
        self.size, self.offset = np.full(outputs, high - low), np.full(outputs, low)

    def __repr__(self) -> str:
        arguments: dict[str, Any] = {"width": self.width}
        if self.depth != 1:
            arguments["depth"] = self.depth
        if self.outputs > 1:
            arguments["outputs"] = self.outputs
        flags = ("positive", "increasing", "decreasing", "through_zero")
        arguments |= {name: True for name in flags if getattr(self, name)}
        if self.bounds is not None:
            arguments["bounds"] = self.bounds
        listed = ", ".join(f"{name}={value}" for name, value in arguments.items())
        return f"dd.Network({listed})"

    @property
    def inputs(self) -> int | None:
        """The number of inputs; None if it is not known yet."""
        return self.weights[0].shape[1] if self.weights else None

    @property
    def has_scales(self) -> bool:
        """Whether centre, scale, size and offset come from data."""
        low, high = self.bounds or (0.0, 1.0)
        tables = (self.center, self.scale, self.size, self.offset)
        plain = (0.0, 1.0, high - low, low)
        return any(np.any(np.asarray(t) != value) for t, value in zip(tables, plain))

    def sized(self, inputs: int, outputs: int | None = None) -> "Network":
        """Return the network with initial weights for these inputs and outputs."""
        outputs = self.outputs if outputs is None else outputs
        random = np.random.default_rng(self.seed)
        sizes = [inputs, *[self.width] * self.depth, outputs]
        weights, biases = [], []
        for layer, (n, m) in enumerate(zip(sizes, sizes[1:])):
            weights.append(jnp.asarray(random.normal(size=(m, n)) / np.sqrt(n)))
            is_last = layer == self.depth
            # The initial biases of hidden layers have the standard deviation 0.5.
            bias = np.zeros(m) if is_last else 0.5 * random.normal(size=m)
            biases.append(jnp.asarray(bias))
        low, high = self.bounds or (0.0, 1.0)
        return _changed(
            self,
            weights=tuple(weights),
            biases=tuple(biases),
            center=np.zeros(inputs),
            scale=np.ones(inputs),
            size=np.full(outputs, high - low),
            offset=np.full(outputs, low),
            outputs=outputs,
            seed=None,
        )

    def scaled(
        self, center: np.ndarray, scale: np.ndarray, size: np.ndarray, offset: Any
    ) -> "Network":
        """Return the network with other scales, as far as its shape allows."""
        if self.bounds is not None:
            return _changed(self, center=center, scale=scale)
        if self.positive or self.through_zero:
            offset = np.zeros(self.outputs)
        return _changed(self, center=center, scale=scale, size=size, offset=offset)

    def numbered(self, number: int | None) -> "Network":
        """Return the network with a number, by which a probe identifies it."""
        return _changed(self, number=number)

    def __call__(self, *inputs: Any) -> jax.Array:
        u = _joined(inputs)
        probe = _PROBE.get()
        if probe is not None and self.number is not None:
            probe.inputs.setdefault(self.number, []).append(u)
            if probe.outputs is not None:
                given = probe.outputs.get(self.number)
                return jnp.zeros(self.outputs, u.dtype) if given is None else given
        if not self.weights:
            raise ValueError(
                "This network has no weights yet, because its number of inputs is not "
                "known. `dd.Problem` finds that out for the networks in its "
                "`rhs`, `history`, `tau` and `observe`: call `problem.rhs`, and not "
                "the function or module that the problem was made from."
            )
        if u.shape != (self.inputs,):
            raise ValueError(
                f"A network with {self.inputs} inputs was called with {u.shape[0]}."
            )
        value = self._last_layer(u)
        if self.through_zero:
            value = value - self._last_layer(jnp.zeros_like(u))
        if self.positive:
            value = jax.nn.softplus(value)
        if self.bounds is not None:
            value = jax.nn.sigmoid(value)
        return _constant(self.size) * value + _constant(self.offset)

    def _last_layer(self, u: jax.Array) -> jax.Array:
        """Return the result without the properties of its shape and its scales."""
        u = (u - _constant(self.center)) / _constant(self.scale)
        is_monotone = self.increasing or self.decreasing
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            if is_monotone:
                weight = jax.nn.softplus(weight) / np.sqrt(weight.shape[1])
            if self.decreasing and layer == self.depth:
                weight = -weight
            # A matrix product would not be fused into the loop over the steps.
            u = jnp.sum(weight * u[None, :], axis=-1) + bias
            u = jnp.tanh(u) if layer < self.depth else u
        return u


def is_network(node: Any) -> bool:
    """Whether a part of a tree is a network."""
    return isinstance(node, Network)


def networks_in(tree: Any) -> list[Network]:
    """Return the networks of a tree, in its order."""
    return [
        leaf for leaf in jax.tree.leaves(tree, is_leaf=is_network) if is_network(leaf)
    ]


def with_networks(tree: Any, networks: list[Network]) -> Any:
    """Return the tree with other networks, in its order."""
    others = iter(networks)
    return jax.tree.map(
        lambda leaf: next(others) if is_network(leaf) else leaf,
        tree,
        is_leaf=is_network,
    )


def numbered_networks(tree: Any) -> Any:
    """Return the tree with its networks numbered, for a probe."""
    networks = networks_in(tree)
    return with_networks(tree, [net.numbered(i) for i, net in enumerate(networks)])


def _constant(table: np.ndarray) -> jax.Array:
    """Return a table of scales, which no gradient reaches: to Equinox it is an array as
    any other, and a user's own training would change it."""
    return lax.stop_gradient(jnp.asarray(table))


def _joined(inputs: tuple[Any, ...]) -> jax.Array:
    """Return numbers and vectors, one after the other."""
    dtype = jnp.result_type(float)
    vectors = [jnp.ravel(jnp.asarray(value, dtype)) for value in inputs]
    if not vectors:
        raise ValueError("A network needs at least one input: `net(y)`.")
    return vectors[0] if len(vectors) == 1 else jnp.concatenate(vectors)


def _changed(network: Network, **values: Any) -> Network:
    """Return the network with other fields."""
    result = object.__new__(Network)
    for name in Network.__dataclass_fields__:
        value = values.get(name, getattr(network, name))
        object.__setattr__(result, name, value)
    return result


def _check_whole(name: str, value: Any, least: int) -> None:
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise ValueError(
            f"`{name}` must be an integer of at least {least}, but got {value!r}."
        )


def _checked_bounds(bounds: Any) -> tuple[float, float] | None:
    if bounds is None:
        return None
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(
            "`bounds` must be two numbers, the lower one first, as (0, 1), but got "
            f"{bounds!r}. For a network that is only known to be positive write "
            "`positive=True`."
        )
    return low, high


def _check_shape(network: Network) -> None:
    """Refuse properties that contradict each other."""
    positive, bounds = network.positive, network.bounds
    through_zero = network.through_zero
    if network.increasing and network.decreasing:
        raise ValueError(
            "A network cannot be both increasing and decreasing. Leave out one."
        )
    if positive and through_zero:
        raise ValueError(
            "A network that is positive everywhere is not zero at zero: leave out "
            "`positive` or `through_zero`. With `increasing=True` and "
            "`through_zero=True` it is positive for positive inputs."
        )
    if positive and bounds is not None:
        raise ValueError(
            "`bounds` already says where a network is positive: leave out `positive`, "
            f"and give bounds from 0 on, as (0, {bounds[1]:g})."
        )
    if through_zero and bounds is not None:
        raise ValueError(
            "A network with `bounds` cannot be held at zero: leave out `bounds` or "
            "`through_zero`."
        )
