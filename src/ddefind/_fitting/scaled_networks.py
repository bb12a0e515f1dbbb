r"""The scales of networks, from data: those of their inputs, and their size.

The equation is not solved. Its functions are evaluated along a smooth curve through the
data, for several delays, and a network gets

- for the centre and the scale of its inputs the mean and the standard deviation of what
  it is called with;
- for its size, in the right-hand side F, the standard deviation of the curve's slope,
  or of the other terms of F where these are larger, divided by the root mean square of
  $F|_{N=1} - F|_{N=0}$; the largest of these among the components of F. In `observe` it
  is that of the measured values.

A network of the history gets a tenth of the record as the scale of time, the
standard deviation of the data as its size, and the beginning of the curve as its
offset. Where nothing was measured, a state is taken as 1.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._data.data import Data
from .._data.smoothing import smooth
from .._problem.delays import delay_count, in_structure, is_delay
from .._problem.general_delays import has_slope
from .._problem.network import (
    Network,
    networks_in,
    numbered_networks,
    probing,
    with_networks,
)
from .._problem.parameters import parameter_vector, with_values
from .._problem.problem import Problem

# The number of times along the curve, and the delays as shares of the record.
_TIMES = 60
_DELAYS = 0.02, 0.1, 0.4
# The rest of an equation is evaluated with rates of one. It counts up to this many
# times the slope, since the rates may be others.
_MOST_TIMES_SLOPE = 3.0
# The scale of time in a history, as a share of the record.
_PAST = 0.1


class _Curve(NamedTuple):
    """The measured quantities at the times `t` on a smooth curve, [M, m], with their
    slopes. Those that were not measured are NaN."""

    t: np.ndarray
    x: np.ndarray
    slope: np.ndarray


class _Sample(NamedTuple):
    """The inputs and the use of a network at K points along the curve."""

    inputs: np.ndarray  # [K, inputs]
    effects: np.ndarray  # how each output moves the computed values, [K, outputs, c]
    targets: np.ndarray  # what the computed values should be, [K, c]
    level: np.ndarray  # the mean value of each output


def scaled_together(problems: Sequence[Problem], sets: Sequence[Data]) -> list[Problem]:
    """Give the networks of problems that differ in numbers only the scales of all data
    sets together. Networks that have scales, as those of an earlier fit, keep them."""
    samples = [_samples(problem, data) for problem, data in zip(problems, sets)]
    return [
        with_networks(
            problem,
            [
                network if network.has_scales else _scaled(network, list(of_network))
                for network, of_network in zip(networks_in(problem), zip(*samples))
            ],
        )
        for problem in problems
    ]


def _scaled(network: Network, samples: list[_Sample]) -> Network:
    """Give the network the scales that its samples show."""
    inputs, effects, targets, levels = (
        np.concatenate(each)
        for each in zip(*(s._replace(level=s.level[None]) for s in samples))
    )
    with np.errstate(all="ignore"):
        center, scale = _moments(inputs)
        spread = np.sqrt(_mean((targets - _mean(targets)) ** 2))
        effect = np.sqrt(_mean(effects**2))
        ratio = np.where(effect > 0, spread / effect, 0.0)
        size = np.max(np.where(np.isfinite(ratio), ratio, 0.0), axis=1, initial=0.0)
    size = np.where(size > 0, size, 1.0)
    offset = _mean(levels)
    return network.scaled(center, scale, size, np.where(offset == offset, offset, 0.0))


def _moments(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mean and the standard deviation of each column. A column that does
    not vary gets its absolute value as deviation, or 1."""
    mean = _mean(rows)
    deviation = np.sqrt(_mean((rows - mean) ** 2))
    varies = deviation > 1e-9 * np.abs(mean)
    deviation = np.where(varies, deviation, np.abs(mean))
    is_known = np.isfinite(deviation) & (deviation > 0)
    return np.where(np.isfinite(mean), mean, 0.0), np.where(is_known, deviation, 1.0)


def _mean(rows: np.ndarray) -> np.ndarray:
    """Compute the mean over the first axis of what is finite; NaN where nothing is."""
    known = np.isfinite(rows)
    count = np.sum(known, axis=0)
    total = np.sum(np.where(known, rows, 0.0), axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _samples(problem: Problem, data: Data) -> list[_Sample]:
    """Sample each network of a problem with one data set."""
    values = parameter_vector(problem)
    # What is not known yet is taken as 1.
    problem = with_values(problem, np.where(np.isfinite(values), values, 1.0))
    problem = numbered_networks(problem)
    curve = _curve(data)
    x, slope = _states(problem, curve)
    parts = {
        **_rhs_samples(problem, curve.t, x, slope, data.T),
        **_history_samples(problem, x, data.T),
        **_observe_samples(problem, curve, x),
    }
    return [
        parts.get(number, _unknown_sample(network))
        for number, network in enumerate(networks_in(problem))
    ]


def _unknown_sample(network: Network) -> _Sample:
    """Return the sample of a network that computes a delay: nothing is known of it."""
    return _Sample(
        np.full((1, network.inputs or 0), np.nan),
        np.full((1, network.outputs, 1), np.nan),
        np.full((1, 1), np.nan),
        np.full(network.outputs, np.nan),
    )


def _curve(data: Data) -> _Curve:
    """Draw smooth curves through all quantities with two measured times or more."""
    t = np.linspace(max(float(data.t[0]), 0.0), data.T, _TIMES)
    columns = []
    for values in data.x.T:
        known = np.isfinite(values)
        if len(np.unique(data.t[known])) < 2:
            columns.append((np.full(_TIMES, np.nan), np.full(_TIMES, np.nan)))
            continue
        measured = Data(data.t[known], values[known])
        curve = smooth(measured)
        if curve is None:
            x = np.interp(t, measured.t, measured.x[:, 0])
            columns.append((x, np.gradient(x, t)))
        else:
            columns.append((curve.x(t)[:, 0], curve.slope(t)[:, 0]))
    x, slope = (np.stack(each, axis=1) for each in zip(*columns))
    return _Curve(t, x, slope)


def _states(problem: Problem, curve: _Curve) -> tuple[np.ndarray, np.ndarray]:
    """Return the states along the curve and their slopes, [M, d]. `observe` is solved
    for them as if it were linear. An unmeasured state is 1, with the slope NaN."""
    measured = np.all(np.isfinite(curve.x), axis=0)
    ones = np.ones(problem.dimension)
    if problem.observe is None:
        origin, jacobian = ones, np.eye(len(ones))
    else:
        origin, jacobian = map(np.asarray, _observed_at(problem.observe, ones))
    jacobian = np.where(np.isfinite(jacobian), jacobian, 0.0)[measured]
    inverse = np.linalg.pinv(jacobian, rcond=1e-6)
    is_known = np.any(np.abs(inverse) > 0, axis=1)
    x = 1 + (curve.x[:, measured] - origin[measured]) @ inverse.T
    slope = np.where(is_known, curve.slope[:, measured] @ inverse.T, np.nan)
    return np.where(is_known & np.isfinite(x), x, 1.0), slope


def _observed_at(observe: Any, x: np.ndarray) -> tuple[jax.Array, jax.Array]:
    zero = jnp.zeros(())
    with probing({}):
        observed = observe(jnp.asarray(x), zero)
        return observed, jax.jacfwd(lambda x: observe(x, zero))(jnp.asarray(x))


def _rhs_samples(
    problem: Problem, t: np.ndarray, x: np.ndarray, slope: np.ndarray, T: float
) -> dict[int, _Sample]:
    """Sample the networks in the right-hand side."""
    if not networks_in(problem.rhs):
        return {}
    leaves = jax.tree.leaves(problem.tau, is_leaf=is_delay)
    rows = []
    for delay in np.array(_DELAYS) * T:
        # Before the curve begins, its first value stands for the history.
        earlier = np.maximum(t - delay, t[0])
        y, y_slope = _read(t, x, earlier), _read(t, slope, earlier)
        y_slope = np.where(np.isfinite(y_slope), y_slope, 0.0)
        items = [(y, y_slope) if has_slope(leaf) else y for leaf in leaves]
        lengths = [np.full(len(t), delay)] * delay_count(problem.tau)
        states = in_structure(problem.tau, items), in_structure(problem.tau, lengths)
        rows.append((x, *states, t))
    arguments = jax.tree.map(lambda *each: np.concatenate(each), *rows)
    targets = np.concatenate([slope] * len(_DELAYS))
    samples, rest = _samples_of(problem.rhs, arguments, targets)
    larger = _larger_than_slope(targets, rest)
    return {
        number: sample._replace(targets=larger * sample.targets)
        for number, sample in samples.items()
    }


def _larger_than_slope(slope: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Return the factor, for each component, by which a term of the right-hand side is
    larger than the slope, given the `rest` of the right-hand side along the curve: a
    network compensates for the excess of the other terms over the slope."""
    with np.errstate(all="ignore"):
        variances = [_mean((a - _mean(a)) ** 2) for a in (slope, rest)]
        factor = np.sqrt(1 + variances[1] / variances[0])
    return np.clip(np.where(np.isfinite(factor), factor, 1.0), 1.0, _MOST_TIMES_SLOPE)


def _observe_samples(
    problem: Problem, curve: _Curve, x: np.ndarray
) -> dict[int, _Sample]:
    """Sample the networks in `observe`."""
    if not networks_in(problem.observe):
        return {}
    return _samples_of(problem.observe, (x, curve.t), curve.x)[0]


def _history_samples(problem: Problem, x: np.ndarray, T: float) -> dict[int, _Sample]:
    """Sample the networks in the history, at two times whose mean is zero and whose
    standard deviation is the scale of time."""
    if not networks_in(problem.history):
        return {}
    times = np.array([-_PAST, _PAST]) * T
    samples, values = _samples_of(problem.history, (times,), x)
    start, base = x[0], np.mean(values, axis=0)
    for number, sample in samples.items():
        effect = np.mean(sample.effects, axis=0)
        with np.errstate(all="ignore"):
            level = np.where(effect != 0, (start - base) / effect, np.nan)
        samples[number] = sample._replace(level=_mean(level.T))
    return samples


def _samples_of(
    function: Any, arguments: Any, targets: np.ndarray
) -> tuple[dict[int, _Sample], np.ndarray]:
    """Sample the networks in a function, and return its values without them. There are
    no samples, and so no scales, if a network is called inside a condition or loop of
    JAX, from which its inputs cannot be taken."""
    try:
        values, inputs, effects = _probe(function, arguments)
    except jax.errors.UnexpectedTracerError:
        return {}, np.zeros(1)
    samples = {
        number: _Sample(
            np.asarray(inputs[number]).reshape(-1, network.inputs or 0),
            np.asarray(effects[number]),
            targets,
            np.zeros(network.outputs),
        )
        for network in networks_in(function)
        if (number := network.number) is not None and number in inputs
    }
    return samples, np.asarray(values)


@eqx.filter_jit
def _probe(function: Any, arguments: Any) -> Any:
    """Return the value of a function whose numbered networks put out zero; the inputs
    of each network, [K, calls, inputs]; and how the value changes if one output is 1,
    [K, outputs, c]. The first axis of the arguments is over K rows."""

    def at(*arguments: Any) -> Any:
        def value(given: Any) -> Any:
            with probing(given) as probe:
                return function(*arguments), probe.inputs

        base, inputs = value({})
        effects = {}
        for network in networks_in(function):
            number, ones = network.number, jnp.eye(network.outputs)
            rows = [value({number: row})[0] - base for row in ones]
            effects[number] = jnp.stack(rows)
        return base, {n: jnp.stack(calls) for n, calls in inputs.items()}, effects

    # What is compiled inside of the function would hide what networks are called with.
    with jax.disable_jit():
        return jax.vmap(at)(*arguments)


def _read(t: np.ndarray, rows: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Interpolate the rows linearly at other times."""
    return np.stack([np.interp(times, t, column) for column in rows.T], axis=1)
