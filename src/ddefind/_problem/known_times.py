"""When the right-hand side of a problem jumps, or has a kink: at known times and at
times that move with parameters.

The knots of inputs and the numbers in `switches` are *known* times: they rest, whatever
the parameters are. The times that a function in `switches` returns are *moving* ones.

An input may be read at the time t, and at t - tau: it then has an effect at its knots,
and one delay later. At which of these times a right-hand side reads its inputs is found
out by tracing it.
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .delays import delay_count, in_structure
from .general_delays import delayed_states
from .inputs import inputs_in, is_input

# The name of the functions by which the reading of an input is found in a program.
_READ = "ddefind_input_"


@final
class Reads(NamedTuple):
    """How something that jumps at certain times is read: at the time itself, if
    `direct`, and through the delays with these numbers."""

    direct: bool
    delays: tuple[int, ...]


class KnownTimes(NamedTuple):
    """Times at which something that the right-hand side reads jumps.

    - `times`, [m], in their order.
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
    """The known times of a problem, and the tables to which a moving time is added."""
    found = []
    switches, doses = problem.switches, _doses_in(problem)
    if doses is not None:
        switches = problem.switches.switches
        count = jax.eval_shape(lambda: problem.moving_times).shape[0]
        first = count - len(doses.moving_times())
        found += doses.known_times(first, delay_count(problem.tau))
    if isinstance(switches, tuple) and switches:
        numbers = np.sort(np.array(switches, float))
        found.append(KnownTimes(numbers, 1, Reads(True, ()), True))
    for each, reads in zip(inputs_in(problem.rhs), input_reads(problem)):
        found.append(KnownTimes(each.knots, each.jump + 1, reads))
    for each in inputs_in(problem.tau):
        found.append(KnownTimes(each.knots, each.jump + 1, Reads(True, ())))
    return [each for each in found if jnp.shape(each.times)[0] > 0]


def _doses_in(problem: Any) -> Any:
    """The right-hand side of a problem, if it has doses in it."""
    return problem.rhs if hasattr(problem.rhs, "moving_times") else None


def carrying_delays(problem: Any) -> tuple[bool, ...]:
    """For each delay, whether the right-hand side reads the delayed state at all, so
    that a kink of the state is carried on."""
    jaxpr, _, y, _, _ = _traced(problem, problem.rhs)
    used = {v for equation in jaxpr.eqns for v in equation.invars if _is_var(v)}
    used |= {v for v in jaxpr.outvars if _is_var(v)}
    return tuple(any(v in used for v in variables) for variables in y)


def _traced(problem: Any, rhs: Any):
    """The program of a right-hand side, and its variables for x, each y, each tau and
    t."""
    state = jax.ShapeDtypeStruct((problem.dimension,), jnp.result_type(float))
    time = jax.ShapeDtypeStruct((), jnp.result_type(float))
    k = delay_count(problem.tau)
    y = delayed_states(problem.tau, state)
    arguments = state, y, in_structure(problem.tau, [time] * k), time
    jaxpr = jax.make_jaxpr(rhs)(*arguments).jaxpr
    count = len(jax.tree.leaves(y))
    x, rest = jaxpr.invars[0], list(jaxpr.invars[1:])
    per_delay = _per_delay(problem.tau, rest[:count])
    return jaxpr, x, per_delay, rest[count : count + k], rest[-1]


def _per_delay(tau: Any, variables: list) -> list[list]:
    """The variables of the delayed state, and of its slope, of each delay."""
    sizes = [len(jax.tree.leaves(each)) for each in _leaves_of_y(tau)]
    ends = np.cumsum([0, *sizes])
    return [variables[a:b] for a, b in zip(ends, ends[1:])]


def _leaves_of_y(tau: Any) -> list:
    numbered = delayed_states(tau, 0)
    is_one = lambda each: isinstance(each, tuple) and each == (0, 0)  # noqa: E731
    if isinstance(tau, tuple):
        return list(numbered)
    return jax.tree.leaves(numbered, is_leaf=is_one)


def _is_var(variable: Any) -> bool:
    return not hasattr(variable, "val")


@final
class _Recorder(eqx.Module):
    """Stands for input `number`, and leaves its number in the program that reads it."""

    number: int = eqx.field(static=True)

    def __call__(self, t: Any) -> jax.Array:
        def same(t):
            return t

        same.__name__ = f"{_READ}{self.number}"
        return jax.jit(same)(jnp.asarray(t, jnp.result_type(float)))


def input_reads(problem: Any) -> list[Reads]:
    """How a right-hand side reads each of its inputs. One that is read at another time
    than t or t - tau may be read at any of these."""
    count = len(inputs_in(problem.rhs))
    if count == 0:
        return []
    numbers = iter(range(count))
    rhs = jax.tree.map(
        lambda leaf: _Recorder(next(numbers)) if is_input(leaf) else leaf,
        problem.rhs,
        is_leaf=is_input,
    )
    jaxpr, _, _, tau, t = _traced(problem, rhs)
    made = {v: equation for equation in jaxpr.eqns for v in equation.outvars}
    anything = Reads(True, tuple(range(len(tau))))
    found: list[set[int]] = [set() for _ in range(count)]
    is_unknown = [False] * count
    seen = [0] * count
    for equation in jaxpr.eqns:
        number = _read_number(equation)
        if number is None:
            continue
        seen[number] += 1
        delay = _delay_of(equation.invars[0], made, tau, t)
        if delay is None:
            is_unknown[number] = True
        else:
            found[number].add(delay)
    result = []
    for number in range(count):
        if is_unknown[number] or not seen[number]:
            # It is read elsewhere, or inside of an inner function.
            is_inside = f"{_READ}{number}" in str(jaxpr)
            is_any = is_unknown[number] or is_inside
            result.append(anything if is_any else Reads(False, ()))
        else:
            delays = tuple(sorted(d for d in found[number] if d >= 0))
            result.append(Reads(-1 in found[number], delays))
    return result


def _read_number(equation: Any) -> int | None:
    """The number of the input that an equation of a program reads, if it does."""
    name = str(equation.params.get("name", ""))
    return int(name.removeprefix(_READ)) if name.startswith(_READ) else None


def _delay_of(variable: Any, made: dict, tau: list, t: Any) -> int | None:
    """The number of the delay by which an input is read, -1 if it is read at the time
    t, and None if it is read at another time."""
    if variable is t:
        return -1
    equation = made.get(variable) if _is_var(variable) else None
    if equation is None or equation.primitive.name != "sub":
        return None
    time, delay = equation.invars
    numbers = [q for q, each in enumerate(tau) if each is delay]
    return numbers[0] if time is t and numbers else None
