"""Delays that are more than a number: of time and state, neutral, or distributed.

They stand in `tau` where a number could stand. A problem with one of them is solved by
the adaptive solvers.
"""

import abc
from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from .._util.arrays import as_parameter, is_concrete
from .delays import (
    AbstractDelay,
    delay_names,
    in_structure,
    is_delay,
)
from .function_parameters import with_parameters


class AbstractVaryingDelay(AbstractDelay):
    """A delay that may depend on the time t and on the state x.

    If `slope` is true, the equation also reads the slope of the delayed state: `y` is
    then the pair of the state x(t - tau) and its slope x'(t - tau), and the equation is
    *neutral*. If `is_constant` is true, the delay depends on neither time nor state."""

    slope: eqx.AbstractVar[bool]
    is_constant: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def __call__(self, t: jax.Array, x: jax.Array) -> jax.Array:
        """The delay at the time `t` in the state `x`, a number."""


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
        return {} if callable(self.delay) else {"delay": "delay"}


class AbstractKernel(AbstractDelay):
    r"""A distributed delay: `y` is the mean of the past states under a density,

    $$y(t) = \int_0^\infty g(s)\, x(t - s)\, ds.$$

    For `tau`, `rhs` gets the mean of the density."""

    @abc.abstractmethod
    def __call__(self) -> jax.Array:
        """The two numbers that determine the density."""


class AbstractGammaDelay(AbstractKernel):
    r"""A gamma distribution of delays: its two numbers are the mean m and the shape k,

    $$g(s) = \frac{b^k s^{k-1}}{\Gamma(k)} e^{-b s}, \qquad b = k / m,\ k \ge 1.$$
    """


class AbstractUniformDelay(AbstractKernel):
    """Delays that are equally frequent between two ends, the two numbers of the
    density."""


@final
class GammaDelay(AbstractGammaDelay):
    """Delays with a gamma distribution of the given mean and shape.

    The shape is any real number from 1 on: with 1 the distribution is exponential, and
    its standard deviation is always mean / sqrt(shape). The right-hand side gets the
    mean of the past states under this distribution for `y`.

    >>> import ddefind as dd
    >>> tau = dd.GammaDelay(mean=2.0, shape=2.7)
    >>> dd.Problem(lambda x, y, tau, t: -y, dd.Constant(0.5), tau).dimension
    1
    """

    mean: jax.Array
    shape: jax.Array

    def __init__(self, mean: Any, shape: Any):
        self.mean, self.shape = as_parameter(mean), as_parameter(shape)
        check_kernel(self)

    def __call__(self):
        return jnp.stack([self.mean, self.shape])

    def describe(self) -> str:
        return (
            f"`GammaDelay` (mean = {float(self.mean):g}, shape = {float(self.shape):g})"
        )

    def roles(self):
        return {"mean": "mean", "shape": "shape"}


@final
class UniformDelay(AbstractUniformDelay):
    """Delays that are equally frequent between `low` and `high`.

    >>> import ddefind as dd
    >>> tau = dd.UniformDelay(low=0.5, high=2.0)
    >>> dd.Problem(lambda x, y, tau, t: -y, dd.Constant(0.5), tau).dimension
    1
    """

    low: jax.Array
    high: jax.Array

    def __init__(self, low: Any, high: Any):
        self.low, self.high = as_parameter(low), as_parameter(high)
        check_kernel(self)

    def __call__(self):
        return jnp.stack([self.low, self.high])

    def describe(self) -> str:
        return (
            f"`UniformDelay` (low = {float(self.low):g}, high = {float(self.high):g})"
        )

    def roles(self):
        return {"low": "low", "high": "high"}


def check_kernel(kernel: AbstractKernel) -> None:
    """Raise an error unless the two numbers of a density are possible. Numbers that are
    not known yet may be NaN."""
    numbers = kernel()
    if not is_concrete(numbers.sum()):
        return
    a, b = (float(number) for number in numbers)
    if isinstance(kernel, AbstractGammaDelay):
        if a <= 0 or b < 1 or abs(a) == float("inf") or b == float("inf"):
            raise ValueError(
                "A gamma distribution of delays needs a positive mean and a shape of "
                f"at least 1, but got {kernel.describe()}."
            )
    elif a < 0 or b <= a or b == float("inf"):
        raise ValueError(
            "A uniform distribution of delays needs 0 <= low < high, but got "
            f"{kernel.describe()}."
        )


def has_slope(leaf: Any) -> bool:
    """Whether a delay makes the equation neutral."""
    return isinstance(leaf, AbstractVaryingDelay) and leaf.slope


def delayed_states(tau: Any, state: Any) -> Any:
    """What a right-hand side gets for `y` if every delayed state, and every slope of
    one, is `state`."""
    leaves = jax.tree.leaves(tau, is_leaf=is_delay)
    items = [(state, state) if has_slope(leaf) else state for leaf in leaves]
    return in_structure(tau, items)


def check_general(tau: Any, t: Any, x: Any) -> None:
    """Raise an error unless each delay that depends on time and state is a number, and
    the two numbers of each density are possible."""
    leaves = jax.tree.leaves(tau, is_leaf=is_delay)
    for name, leaf in zip(delay_names(tau), leaves):
        if isinstance(leaf, AbstractKernel):
            check_kernel(leaf)
        if isinstance(leaf, AbstractVaryingDelay):
            result = jax.eval_shape(leaf, t, x)
            if getattr(result, "shape", None) != ():
                raise ValueError(
                    f"The function of the delay `{name}` must return a number, but it "
                    f"returned {result}. For a component of the state write x[0]."
                )


def typical_delays(tau: Any, x: Any) -> jax.Array:
    """How long each delay is, as one vector: the delay itself; at time zero in the
    state `x`, if it varies; the mean, if it is distributed. The mean is NaN if the two
    numbers of the density are not possible."""
    zero = jnp.zeros((), jnp.result_type(float))

    def one(leaf: Any) -> Any:
        if isinstance(leaf, AbstractVaryingDelay):
            return leaf(zero, x)
        if isinstance(leaf, AbstractGammaDelay):
            mean, shape = leaf()
            return jnp.where(shape >= 1, mean, jnp.nan)
        if isinstance(leaf, AbstractUniformDelay):
            low, high = leaf()
            return jnp.where((low >= 0) & (low < high), (low + high) / 2, jnp.nan)
        return leaf() if is_delay(leaf) else leaf

    return jnp.stack([one(leaf) for leaf in jax.tree.leaves(tau, is_leaf=is_delay)])


def is_general(tau: Any) -> bool:
    """Whether one of the delays in `tau` is more than a number."""
    leaves = jax.tree.leaves(tau, is_leaf=is_delay)
    return any(
        isinstance(leaf, AbstractVaryingDelay | AbstractKernel) for leaf in leaves
    )
