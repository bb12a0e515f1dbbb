"""Delays that are more than a number, and how a right-hand side depends on time.

A delay of time and state, a neutral or a distributed delay stands in `tau` where a
number could stand. A problem with one of them is solved by the adaptive solvers.

A right-hand side may jump or have a kink at *known* times, which depend on no
parameter: the knots of inputs and the numbers in `switches`; and at *moving* times,
which a function in `switches` returns. An input may be read at the time t, and at t -
tau: its knots then have an effect at once, and one delay later. `input_reads` traces
the right-hand side to find out at which of these times it reads its inputs."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._util.arrays import as_parameter
from .delays import (
    DELAY,
    AbstractDelay,
    AbstractDistributedDelay,
    delay_count,
    delay_names,
    in_structure,
    is_delay,
)
from .function_parameters import with_parameters
from .inputs import inputs_in, is_input


class AbstractVaryingDelay(AbstractDelay):
    """A delay that may depend on the time t and on the state x.

    If `slope` is true, the equation also reads the slope of the delayed state, so that
    it is *neutral*: `y` is the pair of x(t - tau) and x'(t - tau). If `is_constant` is
    true, the delay depends on neither time nor state."""

    slope: eqx.AbstractVar[bool]
    is_constant: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def __call__(self, t: jax.Array, x: jax.Array) -> jax.Array:
        """Return the delay at the time `t` in the state `x`, a number."""


@final
class Delay(AbstractVaryingDelay):
    r"""A delay that depends on time and state, or a neutral one.

    **Arguments**

    - `delay(t, x)`: a module or a function that returns the delay at the time `t` in
      the state `x`; or a number, which is a parameter.
    - `slope`: whether `rhs` needs the slope of the delayed state. It then gets the pair
      $(x(t - \tau), x'(t - \tau))$ for `y`.

    >>> import ddefind as dd
    >>> tau = dd.Delay(lambda t, x: 1.0 + x[0] ** 2)
    >>> dd.Problem(lambda x, y, tau, t: -y, dd.Constant(0.5), tau).dimension
    1
    """

    delay: Callable[..., Any] | jax.Array
    slope: bool = eqx.field(static=True)

    def __init__(self, delay: Any, *, slope: bool = False):
        if callable(delay):
            self.delay = with_parameters("delay", delay, ("t", "x"))
        else:
            self.delay = as_parameter(delay)
        self.slope = bool(slope)
        if not callable(self.delay) and not isinstance(self.delay, jax.Array):
            raise TypeError(
                "`Delay` needs a number or a function of t and x that returns the "
                f"delay, but got {delay!r}."
            )

    @property
    def is_constant(self) -> bool:
        """Whether the delay is a number."""
        return not callable(self.delay)

    def __call__(self, t, x):
        return self.delay(t, x) if callable(self.delay) else self.delay

    def describe(self) -> str:
        if not callable(self.delay):
            return f"the neutral delay of {float(self.delay):g}"
        return "the delay that `Delay` computes from t and x"

    def roles(self):
        return {} if callable(self.delay) else {"delay": DELAY}


def has_slope(leaf: Any) -> bool:
    """Whether a delay makes the equation neutral."""
    return isinstance(leaf, AbstractVaryingDelay) and leaf.slope


def delayed_states(tau: Any, state: Any) -> Any:
    """Return the argument `y` of a right-hand side, with `state` for every delayed
    state and for every slope that is read."""
    leaves = jax.tree.leaves(tau, is_leaf=is_delay)
    items = [(state, state) if has_slope(leaf) else state for leaf in leaves]
    return in_structure(tau, items)


def check_general(tau: Any, t: Any, x: Any) -> None:
    """Raise an error unless each varying delay is a number, and the two numbers of each
    density are possible."""
    leaves = jax.tree.leaves(tau, is_leaf=is_delay)
    for name, leaf in zip(delay_names(tau), leaves):
        if isinstance(leaf, AbstractDistributedDelay):
            leaf.check()
        if isinstance(leaf, AbstractVaryingDelay):
            result = jax.eval_shape(leaf, t, x)
            if getattr(result, "shape", None) != ():
                raise ValueError(
                    f"The function of the delay `{name}` must return a number, but it "
                    f"returned {result}. For a component of the state write x[0]."
                )


def delay_at(leaf: Any, t: Any, x: Any) -> Any:
    """Return the length of a delay at the time `t` in the state `x`: of a distributed
    one the mean, or NaN if its two numbers are impossible."""
    if isinstance(leaf, AbstractVaryingDelay):
        return jnp.asarray(leaf(t, x))
    if isinstance(leaf, AbstractDistributedDelay):
        kernel = leaf()
        is_wrong = kernel.is_impossible & (kernel.mean > 0)
        return jnp.where(is_wrong, jnp.nan, kernel.mean)
    return leaf() if is_delay(leaf) else leaf


def typical_delays(tau: Any, x: Any) -> jax.Array:
    """Return the length of each delay at time zero in the state `x`, as one vector."""
    zero = jnp.zeros((), jnp.result_type(float))
    leaves = jax.tree.leaves(tau, is_leaf=is_delay)
    return jnp.stack([delay_at(leaf, zero, x) for leaf in leaves])


def is_general(tau: Any) -> bool:
    """Whether one of the delays in `tau` is more than a number."""
    more = AbstractVaryingDelay | AbstractDistributedDelay
    return any(isinstance(d, more) for d in jax.tree.leaves(tau, is_leaf=is_delay))


# The name of the functions that mark the reading of an input in a program.
_READ = "ddefind_input_"


@final
class Reads(NamedTuple):
    """At which times an input is read: at t itself, if `direct`, and through the delays
    with the numbers `delays`."""

    direct: bool
    delays: tuple[int, ...]


class KnownTimes(NamedTuple):
    """Times at which something that the right-hand side reads jumps.

    - `times`, [m], in increasing order.
    - `derivative`: the lowest derivative of x that jumps where it is read.
    - `is_switch`: whether these are the numbers in `switches`.
    - `mover`: the number of the moving time that is added to them, or None.
    """

    times: Any
    derivative: int
    reads: Reads
    is_switch: bool = False
    mover: int | None = None


def known_times(problem: Any) -> list[KnownTimes]:
    """Return the known times of a problem, and the tables that a moving time shifts."""
    found, rhs, switches = [], problem.rhs, problem.switches
    if hasattr(rhs, "moving_times"):  # a right-hand side with doses
        switches = switches.switches
        count = jax.eval_shape(lambda: problem.moving_times).shape[0]
        first = count - len(rhs.moving_times())
        found += rhs.known_times(first, delay_count(problem.tau))
    if isinstance(switches, tuple) and switches:
        numbers = np.sort(np.array(switches, float))
        found.append(KnownTimes(numbers, 1, Reads(True, ()), True))
    for each, reads in zip(inputs_in(rhs), input_reads(problem)):
        found.append(KnownTimes(each.knots, each.jump + 1, reads))
    for each in inputs_in(problem.tau):
        found.append(KnownTimes(each.knots, each.jump + 1, Reads(True, ())))
    return [each for each in found if jnp.shape(each.times)[0] > 0]


def carrying_delays(problem: Any) -> tuple[bool, ...]:
    """Return for each delay whether the right-hand side reads the delayed state at all,
    so that a kink of the state is carried on."""
    jaxpr, y, _, _ = _traced(problem, problem.rhs)
    used = {v for equation in jaxpr.eqns for v in equation.invars if _is_var(v)}
    used |= {v for v in jaxpr.outvars if _is_var(v)}
    return tuple(any(v in used for v in variables) for variables in y)


def rhs_arguments(tau: Any, d: int) -> tuple[Any, Any, Any, Any]:
    """Return the shapes and types of x, y, tau and t for a right-hand side."""
    x = jax.ShapeDtypeStruct((d,), jnp.result_type(float))
    t = jax.ShapeDtypeStruct((), jnp.result_type(float))
    return x, delayed_states(tau, x), in_structure(tau, [t] * delay_count(tau)), t


def _traced(problem: Any, rhs: Any) -> tuple[Any, list[list], list, Any]:
    """Return the program of a right-hand side, and its variables for each y (the
    delayed state and its slope, if it is read), for each tau, and for t."""
    arguments = rhs_arguments(problem.tau, problem.dimension)
    jaxpr = jax.make_jaxpr(rhs)(*arguments).jaxpr
    leaves = jax.tree.leaves(problem.tau, is_leaf=is_delay)
    variables = iter(jaxpr.invars[1:])
    y = [[next(variables) for _ in range(1 + has_slope(leaf))] for leaf in leaves]
    tau = [next(variables) for _ in leaves]
    return jaxpr, y, tau, next(variables)


def _is_var(variable: Any) -> bool:
    return not hasattr(variable, "val")


@final
class _Recorder(eqx.Module):
    """A stand-in for input `number`, which marks in a program where it is read."""

    number: int = eqx.field(static=True)

    def __call__(self, t: Any) -> jax.Array:
        def same(t):
            return t

        same.__name__ = f"{_READ}{self.number}"
        return jax.jit(same)(jnp.asarray(t, jnp.result_type(float)))


def input_reads(problem: Any) -> list[Reads]:
    """Return how a right-hand side reads each of its inputs. An input that is read at
    another time than t or t - tau may be read at any of these."""
    count = len(inputs_in(problem.rhs))
    if count == 0:
        return []
    numbers = iter(range(count))
    rhs = jax.tree.map(
        lambda leaf: _Recorder(next(numbers)) if is_input(leaf) else leaf,
        problem.rhs,
        is_leaf=is_input,
    )
    jaxpr, _, tau, t = _traced(problem, rhs)
    made = {v: equation for equation in jaxpr.eqns for v in equation.outvars}
    found: list[set[int | None]] = [set() for _ in range(count)]
    for equation in jaxpr.eqns:
        name = str(equation.params.get("name", ""))
        if name.startswith(_READ):
            number = int(name.removeprefix(_READ))
            found[number].add(_delay_of(equation.invars[0], made, tau, t))
    result = []
    for number, delays in enumerate(found):
        # An input that no equation reads may be read inside of an inner function.
        if None in delays or (not delays and f"{_READ}{number}" in str(jaxpr)):
            result.append(Reads(True, tuple(range(len(tau)))))
        else:
            past = sorted(q for q in delays if q is not None and q >= 0)
            result.append(Reads(-1 in delays, tuple(past)))
    return result


def _delay_of(variable: Any, made: dict, tau: list, t: Any) -> int | None:
    """Return the number of the delay by which an input is read: -1 for the time t
    itself, None for another time."""
    if variable is t:
        return -1
    equation = made.get(variable) if _is_var(variable) else None
    if equation is None or equation.primitive.name != "sub":
        return None
    time, delay = equation.invars
    numbers = [q for q, each in enumerate(tau) if each is delay]
    return numbers[0] if time is t and numbers else None
