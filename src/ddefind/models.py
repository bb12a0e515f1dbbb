"""Right-hand sides F(x(t), x(t - tau), tau, t; theta) of delay equations.

These are the five models of the DDE-Find paper (`Exponential`, `Logistic`, `ENSO`,
`Cheyne`, `HIV`) and two general ones (`Structured`, `Neural`). In each, `x` is the
state x(t) and `y` the delayed state x(t - tau), both of shape (d,).

May import: `_util`, `_problem`.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from ._problem.network import Network
from ._util.arrays import as_parameter


class AbstractModel(eqx.Module):
    """The base class of right-hand sides.

    A subclass holds its parameters as fields and computes the equation in `__call__`.
    """

    @abc.abstractmethod
    def __call__(
        self, x: jax.Array, y: jax.Array, tau: jax.Array, t: jax.Array
    ) -> jax.Array:
        """Return the derivative x'(t), with the shape of `x`."""


@final
class Exponential(AbstractModel):
    r"""Delayed exponential decay: $x' = \theta_0 \odot x + \theta_1 \odot x(t - \tau)$.

    The state can have any number of components. Each parameter is one number for all
    components, or a vector with one number for each.

    >>> Exponential(theta_0=-2.0, theta_1=-1.0)(np.ones(1), np.ones(1), 1.0, 0.0)
    Array([-3.], dtype=float64)
    """

    theta_0: jax.Array = eqx.field(converter=as_parameter)
    theta_1: jax.Array = eqx.field(converter=as_parameter)

    def __call__(
        self, x: jax.Array, y: jax.Array, tau: jax.Array, t: jax.Array
    ) -> jax.Array:
        return self.theta_0 * x + self.theta_1 * y


@final
class Logistic(AbstractModel):
    r"""Delayed logistic growth: $x' = \theta_0\, x\, (1 - \theta_1\, x(t - \tau))$.

    >>> Logistic(theta_0=2.0, theta_1=0.5)(np.ones(1), np.ones(1), 1.0, 0.0)
    Array([1.], dtype=float64)
    """

    theta_0: jax.Array = eqx.field(converter=as_parameter)
    theta_1: jax.Array = eqx.field(converter=as_parameter)

    def __call__(
        self, x: jax.Array, y: jax.Array, tau: jax.Array, t: jax.Array
    ) -> jax.Array:
        return self.theta_0 * x * (1 - self.theta_1 * y)


@final
class ENSO(AbstractModel):
    r"""El Niño / Southern Oscillation, the delayed oscillator of Suarez and Schopf:
    $x' = \theta_0 x - \theta_1 x^3 - \theta_2 x(t - \tau)$.

    >>> ENSO(theta_0=1.0, theta_1=1.0, theta_2=0.5)(np.ones(1), np.ones(1), 5.0, 0.0)
    Array([-0.5], dtype=float64)
    """

    theta_0: jax.Array = eqx.field(converter=as_parameter)
    theta_1: jax.Array = eqx.field(converter=as_parameter)
    theta_2: jax.Array = eqx.field(converter=as_parameter)

    def __call__(
        self, x: jax.Array, y: jax.Array, tau: jax.Array, t: jax.Array
    ) -> jax.Array:
        return self.theta_0 * x - self.theta_1 * x * x * x - self.theta_2 * y


@final
class Cheyne(AbstractModel):
    r"""The concentration of carbon dioxide in Cheyne-Stokes respiration:
    $x' = p - V_0\, x\, x(t-\tau)^m / (\alpha + x(t-\tau)^m)$.

    The exponent $m$ is a fixed integer, which is not learned.

    >>> Cheyne(p=1.0, V_0=7.0, alpha=2.0)(np.ones(1), np.zeros(1), 0.25, 0.0)
    Array([1.], dtype=float64)
    """

    p: jax.Array = eqx.field(converter=as_parameter)
    V_0: jax.Array = eqx.field(converter=as_parameter)
    alpha: jax.Array = eqx.field(converter=as_parameter)
    m: int = eqx.field(static=True, default=8)

    def __check_init__(self):
        if not isinstance(self.m, int) or self.m < 1:
            raise ValueError(f"`m` is a fixed positive integer, but got {self.m!r}.")

    def __call__(
        self, x: jax.Array, y: jax.Array, tau: jax.Array, t: jax.Array
    ) -> jax.Array:
        power = y**self.m
        return self.p - self.V_0 * x * power / (self.alpha + power)


@final
class HIV(AbstractModel):
    r"""HIV infection under a partly effective drug (Nelson, Murray, Perelson).

    The state is $x = (T^*, V_I, V_{NI})$: infected cells, infectious virus and
    non-infectious virus.

    $T^{*\prime} = k\, T_0\, V_I(t - \tau)\, e^{-m \tau} - \delta\, T^*$
    $V_I' = (1 - n_p)\, N\, \delta\, T^* - c\, V_I$
    $V_{NI}' = n_p\, N\, \delta\, T^* - c\, V_{NI}$

    The default values are those of the DDE-Find paper.

    >>> HIV()(np.array([10.0, 8.0, 0.0]), np.zeros(3), 1.0, 0.0).round(2)
    Array([-0.5 , -2.32, 10.32], dtype=float64)
    """

    k: jax.Array = eqx.field(converter=as_parameter, default=0.00343)
    m: jax.Array = eqx.field(converter=as_parameter, default=3.8)
    delta: jax.Array = eqx.field(converter=as_parameter, default=0.05)
    c: jax.Array = eqx.field(converter=as_parameter, default=2.0)
    T_0: jax.Array = eqx.field(converter=as_parameter, default=1000.0)
    n_p: jax.Array = eqx.field(converter=as_parameter, default=0.43)
    N: jax.Array = eqx.field(converter=as_parameter, default=48.0)

    def __call__(
        self, x: jax.Array, y: jax.Array, tau: jax.Array, t: jax.Array
    ) -> jax.Array:
        infected, infectious, non_infectious = x[0], x[1], x[2]
        produced = self.N * self.delta * infected
        newly_infected = self.k * self.T_0 * y[1] * jnp.exp(-self.m * tau)
        return jnp.stack(
            [
                newly_infected - self.delta * infected,
                (1 - self.n_p) * produced - self.c * infectious,
                self.n_p * produced - self.c * non_infectious,
            ]
        )


@final
class Structured(AbstractModel):
    r"""The rational form of the paper:
    $x' = \sum_i a_i f_i / \sum_j b_j g_j + \sum_k c_k h_k$.

    The user chooses the functions $f_i, g_j, h_k$ of `(x, y, tau, t)`, and the
    coefficients $a_i, b_j, c_k$ are learned. Without `g` the first term is
    $\sum_i a_i f_i$. Without `f` there is no first term.

    >>> terms = [lambda x, y, tau, t: x, lambda x, y, tau, t: x * y]
    >>> model = Structured(h=terms, c=[2, -3])
    >>> model(np.ones(1), np.ones(1), 1.0, 0.0)
    Array([-1.], dtype=float64)
    """

    a: jax.Array
    b: jax.Array
    c: jax.Array
    f: tuple[Callable, ...] = eqx.field(static=True)
    g: tuple[Callable, ...] = eqx.field(static=True)
    h: tuple[Callable, ...] = eqx.field(static=True)

    def __init__(
        self,
        f: Sequence[Callable] = (),
        g: Sequence[Callable] = (),
        h: Sequence[Callable] = (),
        *,
        a: Sequence[float] = (),
        b: Sequence[float] = (),
        c: Sequence[float] = (),
    ):
        self.f, self.g, self.h = tuple(f), tuple(g), tuple(h)
        self.a, self.b, self.c = as_parameter(a), as_parameter(b), as_parameter(c)
        for functions, letter, coefficients in zip("fgh", "abc", (a, b, c)):
            if len(getattr(self, functions)) != len(coefficients):
                raise ValueError(
                    f"`{functions}` has {len(getattr(self, functions))} functions but "
                    f"`{letter}` has {len(coefficients)} coefficients: give one each."
                )
        if self.g and not self.f:
            raise ValueError("`g` divides the sum over `f`: give `f` and `a` as well.")
        if not self.f and not self.h:
            raise ValueError("Give at least one function in `f` or `h`.")

    def __call__(
        self, x: jax.Array, y: jax.Array, tau: jax.Array, t: jax.Array
    ) -> jax.Array:
        def weighted_sum(coefficients: jax.Array, functions: Sequence[Callable]) -> Any:
            return sum(
                coefficients[i] * f(x, y, tau, t) for i, f in enumerate(functions)
            )

        rational = weighted_sum(self.a, self.f)
        if self.g:
            rational = rational / weighted_sum(self.b, self.g)
        return rational + weighted_sum(self.c, self.h)


@final
class Neural(AbstractModel):
    r"""A multilayer perceptron N of the state and the delayed state:
    $x' = N(x, x(t-\tau))$.

    `d` is the number of components. The network has `depth` hidden layers of `width`
    units each, and `seed` draws its initial weights.

    >>> Neural(d=2, width=8, depth=1)(np.ones(2), np.ones(2), 1.0, 0.0).shape
    (2,)
    """

    network: Network

    def __init__(self, d: int, width: int = 16, depth: int = 2, *, seed: int = 0):
        self.network = Network(width, depth, outputs=d, seed=seed).sized(2 * d)

    @classmethod
    def of(cls, network: Network) -> "Neural":
        """Return the model x' = N(x, x(t - tau)) of a network N."""
        result = cls(network.outputs, 1, 0)
        return eqx.tree_at(lambda model: model.network, result, network)

    def __call__(
        self, x: jax.Array, y: jax.Array, tau: jax.Array, t: jax.Array
    ) -> jax.Array:
        return self.network(x, y)
