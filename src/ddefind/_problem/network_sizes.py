"""How many inputs the networks of a problem get, found by tracing its functions.

A network that is a whole right-hand side is a function of x(t) and x(t - tau), and one
that is a whole history a function of time."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from .._util.users_code import compilable
from .delays import delay_count, in_structure
from .function_parameters import FunctionWithParameters
from .general_delays import check_general, delayed_states
from .history import Neural
from .network import (
    Network,
    is_network,
    networks_in,
    numbered_networks,
    probing,
    with_networks,
)

# The most components of the state that are tried for a history that is a network.
_MOST_STATES = 50


@final
class NetworkRhs(eqx.Module):
    r"""A right-hand side that is a network: $F = N(x(t), x(t - \tau))$, with one vector
    for each delay."""

    network: Network

    def __call__(self, x: Any, y: Any, tau: Any, t: Any) -> jax.Array:
        return self.network(x, *jax.tree.leaves(y))


class NetworkParts(NamedTuple):
    """The parts of a problem in which networks may stand."""

    rhs: Any
    history: Any
    tau: Any
    observe: Any


def sized_parts(parts: NetworkParts) -> NetworkParts:
    """The parts of a problem, with weights for all of their networks.

    Parts without networks are returned as they are, and are not traced."""
    if not networks_in(parts):
        return parts
    parts = _with_functions(parts)
    networks = networks_in(parts)
    if all(network.weights for network in networks):
        return parts
    calls = _recorded(numbered_networks(parts))
    return with_networks(
        parts,
        [_sized(network, calls.get(i, ())) for i, network in enumerate(networks)],
    )


def _with_functions(parts: NetworkParts) -> NetworkParts:
    """The parts, with the arguments of those that are networks by themselves."""
    rhs, history, tau, observe = parts
    if is_network(history):
        history = Neural.of(history, _dimension(rhs, tau, history))
    if is_network(rhs):
        if not rhs.weights and (d := _components(history)) is not None:
            _check_outputs(rhs, d)
            count = len(jax.tree.leaves(delayed_states(tau, _state(1))))
            rhs = rhs.sized(d * (1 + count), d)
        rhs = NetworkRhs(rhs)
    if is_network(observe):
        observe = FunctionWithParameters(_of_state, {"network": observe})
    return NetworkParts(rhs, history, tau, observe)


def _of_state(x: Any, t: Any, *, network: Network) -> jax.Array:
    return network(x)


def _recorded(parts: NetworkParts) -> Mapping[int, list[Any]]:
    """The shapes with which the numbered networks of a problem are called."""
    rhs, history, tau, observe = parts
    calls: dict[int, list[Any]] = {}

    def trace(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        # What JAX has traced or compiled before it would not call again: nothing is
        # compiled here, and the function is a new lambda.
        with probing({}) as probe, compilable(name), jax.disable_jit():
            result = jax.eval_shape(lambda *values: function(*values), *arguments)
        for number, inputs in probe.inputs.items():
            calls.setdefault(number, []).extend(u.shape[0] for u in inputs)
        return result

    state = trace("history", history, _time())
    if getattr(state, "ndim", None) != 1:
        return calls
    x = _state(state.shape[0])
    if networks_in(tau):
        with probing({}) as probe, compilable("tau"):
            check_general(tau, _time(), x)
        for number, inputs in probe.inputs.items():
            calls.setdefault(number, []).extend(u.shape[0] for u in inputs)
    lengths = in_structure(tau, [_time()] * delay_count(tau))
    trace("rhs", rhs, x, delayed_states(tau, x), lengths, _time())
    if observe is not None:
        trace("observe", observe, x, _time())
    return calls


def _sized(network: Network, sizes: Any) -> Network:
    if network.weights:
        return network
    if not sizes:
        raise ValueError(
            "A network in the problem is never called. Call it in `rhs`, `history`, "
            "`tau` or `observe`, as `net(y)`, or leave it out."
        )
    if len(set(sizes)) > 1:
        counts = " and with ".join(map(str, sorted(set(sizes))))
        raise ValueError(
            f"A network is called with {counts} inputs. Give it the same "
            "number in each call, or make two networks."
        )
    return network.sized(sizes[0])


def _dimension(rhs: Any, tau: Any, history: Network) -> int:
    """The number of components of the state, where the history is a network and does
    not tell: the smallest with which the right-hand side returns as many."""
    if history.outputs > 1 or history.weights:
        return history.outputs
    if is_network(rhs):
        return rhs.outputs
    lengths = in_structure(tau, [_time()] * delay_count(tau))
    numbered = numbered_networks(rhs)
    for d in range(1, _MOST_STATES + 1):
        x = _state(d)
        try:
            with probing({}):
                result = jax.eval_shape(
                    lambda *values: numbered(*values),
                    x,
                    delayed_states(tau, x),
                    lengths,
                    _time(),
                )
        except (TypeError, ValueError, IndexError):
            continue
        if getattr(result, "shape", None) == (d,):
            return d
    # The check of the problem says what is wrong with the right-hand side.
    return 1


def _components(history: Any) -> int | None:
    """The number of components that a history returns; None if it is no vector."""
    if not callable(history):
        return None
    with probing({}), compilable("history"):
        state = jax.eval_shape(numbered_networks(history), _time())
    return state.shape[0] if getattr(state, "ndim", None) == 1 else None


def _check_outputs(network: Network, d: int) -> None:
    if network.outputs not in (1, d):
        raise ValueError(
            f"`rhs` is a network with {network.outputs} outputs, but the state has "
            f"{d} components. Leave out `outputs`: it gets as many as it needs."
        )


def _time() -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((), jnp.result_type(float))


def _state(d: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((d,), jnp.result_type(float))
