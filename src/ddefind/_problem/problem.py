"""The initial value problem of a delay differential equation, and its checks."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._util.arrays import as_vector_parameter
from .._util.users_code import compilable
from ..noise._abstract import AbstractNoise
from .delays import as_delays, check_delays, is_delay
from .doses import Doses, make_doses
from .function_parameters import FunctionWithParameters, with_parameters
from .general_delays import (
    AbstractVaryingDelay,
    KnownTimes,
    check_general,
    delayed_states,
    known_times,
    rhs_arguments,
)
from .history import NeuralHistory
from .network import (
    Network,
    is_network,
    networks_in,
    numbered_networks,
    probing,
    with_networks,
)

# The largest number of components that is tried for the state of a network history.
_MOST_STATES = 50


@final
class NetworkRhs(eqx.Module):
    r"""A right-hand side that is a network: $F = N(x(t), x(t - \tau), \dots)$, with one
    delayed state for each delay."""

    network: Network

    def __call__(self, x: Any, y: Any, tau: Any, t: Any) -> jax.Array:
        return self.network(x, *jax.tree.leaves(y))


class _Parts(NamedTuple):
    """The parts of a problem in which networks may stand."""

    rhs: Any
    history: Any
    tau: Any
    observe: Any


def _sized_parts(parts: _Parts) -> _Parts:
    """Return the parts of a problem with weights for all of their networks, whose
    numbers of inputs are found by tracing. Without networks nothing is traced."""
    if not networks_in(parts):
        return parts
    parts = _with_functions(parts)
    networks = networks_in(parts)
    if all(network.weights for network in networks):
        return parts
    sizes = _input_counts(numbered_networks(parts))
    return with_networks(
        parts,
        [_sized(network, sizes.get(i, set())) for i, network in enumerate(networks)],
    )


def _with_functions(parts: _Parts) -> _Parts:
    """Return the parts, where networks alone become functions of a part's arguments. A
    network that is a whole right-hand side is a function of x(t) and x(t - tau), and
    one that is a whole history a function of time."""
    rhs, history, tau, observe = parts
    if is_network(history):
        history = NeuralHistory.of(history, _dimension(rhs, tau, history))
    if is_network(rhs):
        if not rhs.weights and (d := _components(history)) is not None:
            if rhs.outputs not in (1, d):
                raise ValueError(
                    f"`rhs` is a network with {rhs.outputs} outputs, but the state has "
                    f"{d} components. Leave out `outputs`: it gets as many as it needs."
                )
            count = len(jax.tree.leaves(delayed_states(tau, 0)))
            rhs = rhs.sized(d * (1 + count), d)
        rhs = NetworkRhs(rhs)
    if is_network(observe):
        observe = FunctionWithParameters(_network_of_state, {"network": observe})
    return _Parts(rhs, history, tau, observe)


def _network_of_state(x: Any, t: Any, *, network: Network) -> jax.Array:
    return network(x)


def _input_counts(parts: _Parts) -> dict[int, set[int]]:
    """Return with how many inputs each numbered network of a problem is called."""
    rhs, history, tau, observe = parts

    def trace(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        # What JAX has traced or compiled before it would not call again: nothing is
        # compiled here, and the function is a new lambda.
        with compilable(name), jax.disable_jit():
            return jax.eval_shape(lambda *values: function(*values), *arguments)

    with probing({}) as probe:
        state = trace("history", history, _time_shape())
        if getattr(state, "ndim", None) == 1:
            x, y, lengths, t = rhs_arguments(tau, state.shape[0])
            if networks_in(tau):
                with compilable("tau"):
                    check_general(tau, t, x)
            trace("rhs", rhs, x, y, lengths, t)
            if observe is not None:
                trace("observe", observe, x, t)
    return {i: {u.shape[0] for u in inputs} for i, inputs in probe.inputs.items()}


def _sized(network: Network, sizes: set[int]) -> Network:
    if network.weights:
        return network
    if not sizes:
        raise ValueError(
            "A network in the problem is never called. Call it in `rhs`, `history`, "
            "`tau` or `observe`, as `net(y)`, or leave it out."
        )
    if len(sizes) > 1:
        counts = " and with ".join(map(str, sorted(sizes)))
        raise ValueError(
            f"A network is called with {counts} inputs. Give it the same "
            "number in each call, or make two networks."
        )
    return network.sized(*sizes)


def _dimension(rhs: Any, tau: Any, history: Network) -> int:
    """Return the number of components of the state if the history is a network. If the
    network leaves it open, it is the smallest that the right-hand side preserves."""
    if history.outputs > 1 or history.weights:
        return history.outputs
    if is_network(rhs):
        return rhs.outputs
    numbered = numbered_networks(rhs)
    for d in range(1, _MOST_STATES + 1):
        try:
            with probing({}):
                result = jax.eval_shape(
                    lambda *values: numbered(*values), *rhs_arguments(tau, d)
                )
        except (TypeError, ValueError, IndexError):
            continue
        if getattr(result, "shape", None) == (d,):
            return d
    return 1  # The check of the problem reports what is wrong with the right-hand side.


def _components(history: Any) -> int | None:
    """Return the number of components of a history, or None if it is no vector."""
    if not callable(history):
        return None
    with probing({}), compilable("history"):
        state = jax.eval_shape(numbered_networks(history), _time_shape())
    return state.shape[0] if getattr(state, "ndim", None) == 1 else None


def _time_shape() -> jax.ShapeDtypeStruct:
    """Return the shape and the type of a time or a delay."""
    return jax.ShapeDtypeStruct((), jnp.result_type(float))


@final
class Problem(eqx.Module):
    r"""The initial value problem of a delay differential equation.

    $x'(t) = F(x(t), x(t - \tau), \tau, t)$ for $t > 0$, and $x(t) = X_0(t)$ for $t \le
    0$. There may be several delays.

    **Arguments**

    - `rhs(x, y, tau, t)`: $F$, an Equinox module or a function. The state `x` and the
      delayed state `y` = $x(t-\tau)$ have shape (d,), and so has the result.
    - `history(t)`: $X_0$, an Equinox module or a function, with a result of shape (d,).
    - `tau`: the delay, a positive number; or several delays, a tuple or a dict of
      them. `rhs` then gets `tau` and `y` in the same structure: with
      `tau={"growth": 2.0, "rest": 5.0}`, `y["rest"]` is $x(t - 5)$. Instead of a
      number there may be a `Delay` that depends on time and state or makes the equation
      neutral, or a distributed one, such as a `GammaDelay`.
    - `initial`: $x(0)$, if it differs from `history(0)`, as after a dose that is given
      at time zero. It is a vector of parameters, or a module or function that returns
      the vector, given the problem: `lambda problem: problem.history(0.0) + 1`.
    - `observe(x, t)`: the quantities that are measured, of shape (k,). By default they
      are the state itself.
    - `switches`: the times at which `rhs` jumps, as where a condition on `t` changes.
      They become nodes of the solver, which otherwise loses its order there. A time
      before zero is one at which the history jumps. They are
      numbers, or a function that returns them as a vector, given the problem:
      `lambda problem: problem.rhs.t_on[None]`.
    - `doses`: what is given to states at certain times: a list of `Dose` and
      `SetState`, with the numbers of the states.
    - `noise`: how the measured quantities scatter, by their names: a dict of noise
      models, as `{"x": dd.noise.LogNormal()}`. By default it is Gaussian, of one size
      for each quantity.

    `rhs` and `history` may be a `Network`, and any function may contain some.

    Every floating-point number and array of JAX in the problem is a parameter, and so
    is a number that is the default of a further argument of a function: `def rhs(x, y,
    tau, t, r=1.0)` has the parameter `r`. An array of NumPy is a table of constants;
    make it an array of JAX, `jnp.asarray(table)`, to learn its elements.
    `parameter_values` lists the parameters.

    >>> import ddefind as dd
    >>> dd.Problem(dd.models.Logistic(1.0, 1.0), dd.Constant(0.1), tau=0.5).dimension
    1
    """

    rhs: Callable[..., Any]
    history: Callable[..., Any]
    tau: Any
    initial: Any
    observe: Callable[..., Any] | None
    switches: Callable[..., Any] | tuple[float, ...]
    doses: Doses | None
    noise: dict[str, AbstractNoise] | None

    def __init__(
        self,
        rhs: Callable,
        history: Callable,
        tau: Any,
        *,
        initial: Any = None,
        observe: Callable | None = None,
        switches: Any = (),
        doses: Any = None,
        noise: Mapping[str, AbstractNoise] | None = None,
    ):
        parts = _Parts(
            with_parameters("rhs", rhs, ("x", "y", "tau", "t")),
            with_parameters("history", history, ("t",)),
            as_delays(tau),
            with_parameters("observe", observe, ("x", "t")),
        )
        self.rhs, self.history, self.tau, self.observe = _sized_parts(parts)
        if callable(initial):
            self.initial = with_parameters("initial", initial, ("problem",))
        else:
            self.initial = as_vector_parameter(initial)
        self.switches = switches if callable(switches) else _numbers(switches)
        self.doses = None
        self.noise = None if noise is None else dict(noise)
        _check_problem(self)
        self.doses = make_doses(doses, self.dimension, self.initial is not None)

    @property
    def dimension(self) -> int:
        """d, the number of components of the state."""
        return jax.eval_shape(self.history, _time_shape()).shape[0]

    @property
    def observed(self) -> int:
        """k, the number of measured quantities."""
        if self.observe is None:
            return self.dimension
        x, _, _, t = rhs_arguments(self.tau, self.dimension)
        return jax.eval_shape(self.observe, x, t).shape[0]

    @property
    def is_autonomous(self) -> bool:
        """Whether the equation is the same at all times: neither the right-hand side,
        nor a delay, nor what is observed depends on t."""
        x, y, tau, t = rhs_arguments(self.tau, self.dimension)
        functions: list[tuple[Callable, tuple]] = [(self.rhs, (x, y, tau, t))]
        if self.observe is not None:
            functions.append((self.observe, (x, t)))
        for leaf in jax.tree.leaves(self.tau, is_leaf=is_delay):
            if isinstance(leaf, AbstractVaryingDelay):
                functions.append((lambda x, t, leaf=leaf: leaf(t, x), (x, t)))
        has_switches = jax.eval_shape(lambda: self.switch_times).shape[0] > 0
        return not (
            has_switches
            or self.doses is not None
            or self.known_times
            or any(_uses_last(*each) for each in functions)
        )

    @property
    def moving_count(self) -> int:
        """The number of switches whose times are parameters."""
        return jax.eval_shape(lambda: self.moving_times).shape[0]

    @property
    def has_switches(self) -> bool:
        """Whether the right-hand side jumps, or has a kink, at certain times."""
        return self.moving_count > 0 or bool(self.known_times)

    @property
    def has_jump(self) -> bool:
        """Whether the state jumps at time zero, from `history(0)` to `start`."""
        return self.initial is not None

    @property
    def start(self) -> jax.Array:
        """The state x(0): `initial` if the problem has one, or else `history(0)`."""
        if self.initial is None:
            return self.history(jnp.zeros((), jnp.result_type(float)))
        if not callable(self.initial):
            return self.initial
        function: Callable[..., Any] = self.initial
        return function(self)

    @property
    def switch_times(self) -> jax.Array:
        """The times at which the right-hand side jumps, as a vector."""
        if callable(self.switches):
            return self.switches(self)
        return jnp.asarray(np.array(self.switches, float))

    @property
    def moving_times(self) -> jax.Array:
        """The switches that may depend on parameters."""
        return self.switch_times if callable(self.switches) else jnp.zeros(0)

    @property
    def known_times(self) -> list[KnownTimes]:
        """The times that depend on no parameter at which the right-hand side jumps or
        has a kink: numbers in `switches`, and the knots of inputs."""
        return known_times(self)


def with_parts(problem: Problem, **parts: Any) -> Problem:
    """Return the problem with other parts, which are not checked."""
    result = object.__new__(Problem)
    for each in fields(Problem):
        value = parts.get(each.name, getattr(problem, each.name))
        object.__setattr__(result, each.name, value)
    return result


def _numbers(switches: Any) -> tuple[float, ...]:
    """Return the numbers in the argument `switches` as a tuple."""
    try:
        numbers = np.atleast_1d(np.asarray(switches, dtype=float))
    except (TypeError, ValueError):
        numbers = np.full(1, np.nan)
    if numbers.ndim > 1 or not np.all(np.isfinite(numbers)):
        raise ValueError(
            "`switches` must be times, or a function of the problem that returns them, "
            f"but got {switches!r}."
        )
    return tuple(numbers.tolist())


def _uses_last(function: Callable, arguments: tuple) -> bool:
    """Whether a function depends on its last argument, an array."""
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    used = [v for equation in jaxpr.eqns for v in equation.invars] + jaxpr.outvars
    return any(v is jaxpr.invars[-1] for v in used)


def _check_problem(problem: Problem) -> None:
    """Check the types of a problem's parts, and the shapes of their results by abstract
    evaluation. Errors of the user's functions are passed on as they are, unless JAX
    cannot compile the function."""
    for name in ("rhs", "history", "observe"):
        value = getattr(problem, name)
        if isinstance(value, type):
            raise TypeError(
                f"`{name}` must be an instance or a function, but got the class "
                f"`{value.__name__}`. Call it: `{value.__name__}(...)`."
            )
        modules = [base.__module__ for base in type(value).mro()]
        if "torch.nn.modules.module" in modules:
            raise TypeError(
                f"`{name}` is a torch module. Convert it: `{name}=dd.from_torch(...)`."
            )
        if not callable(value) and not (name == "observe" and value is None):
            raise TypeError(f"`{name}` must be callable, but got {value!r}.")
    _check_noise(problem.noise)
    check_delays(problem.tau)
    with compilable("history"):
        state = jax.eval_shape(problem.history, _time_shape())
    if getattr(state, "ndim", None) != 1:
        raise ValueError(
            "`history(t)` must return a vector of shape (d,), but it returned "
            f"{_describe(state)}. For one component return an array of length 1."
        )
    d = state.shape[0]
    x, y, tau, t = rhs_arguments(problem.tau, d)
    with compilable("tau"):
        check_general(problem.tau, t, x)
    with compilable("rhs"):
        derivative = jax.eval_shape(problem.rhs, x, y, tau, t)
    if getattr(derivative, "shape", None) != (d,):
        raise ValueError(
            f"`rhs` returned {_describe(derivative)} but `history(0)` has shape "
            f"({d},). Return one derivative per component of the state, as an array: "
            f"`{_stacked(d)}`."
        )
    if problem.initial is not None:
        _check_initial(problem, d)
    if problem.observe is not None:
        with compilable("observe"):
            observed = jax.eval_shape(problem.observe, x, t)
        if getattr(observed, "ndim", None) != 1:
            raise ValueError(
                "`observe(x, t)` must return a vector of shape (k,), but it returned "
                f"{_describe(observed)}."
            )
    with compilable("switches"):
        times = jax.eval_shape(lambda: problem.switch_times)
    if getattr(times, "ndim", None) != 1:
        raise ValueError(
            "`switches(problem)` must return a vector of times, but it returned "
            f"{_describe(times)}."
        )


def _check_noise(noise: Any) -> None:
    for name, model in (noise or {}).items():
        if not isinstance(name, str) or not isinstance(model, AbstractNoise):
            raise TypeError(
                "`noise` maps names of quantities to noise models, as "
                f"{{'x': dd.noise.LogNormal()}}, but got {name!r}: {model!r}."
            )


def with_noise(problem: Problem, noise: Any) -> Problem:
    """Return the problem with another noise, a dict of models by quantity, or None."""
    return with_parts(problem, noise=noise)


def _check_initial(problem: Problem, d: int) -> None:
    if not callable(problem.initial) and not isinstance(problem.initial, jax.Array):
        raise TypeError(f"`initial` must be numbers, but got {problem.initial!r}.")
    if isinstance(problem.initial, type):
        name = problem.initial.__name__
        raise TypeError(
            "`initial` must be numbers, a module or a function, but got the class "
            f"`{name}`. Call it: `{name}(...)`."
        )
    with compilable("initial"):
        start = jax.eval_shape(lambda: problem.start)
    if getattr(start, "shape", None) != (d,):
        raise ValueError(f"`initial` has {_describe(start)}, but the state has ({d},).")


def _stacked(d: int) -> str:
    """Return how a user writes a vector of d components."""
    parts = ["-x[0]"] if d == 1 else ["-x[0]", "-y[1]", "..."][: min(d, 3)]
    return f"jnp.stack([{', '.join(parts)}])"


def _describe(value: Any) -> str:
    """Return the shape of a result, or its type if it has no shape."""
    shape = getattr(value, "shape", None)
    return f"shape {shape}" if shape is not None else f"{type(value).__name__}"
