r"""Histories: the state of the system up to time zero.

A history that equations can be given by name is a class with a `word`: `KINDS` lists
these classes by themselves.

A spline history bends a straight line by smooth curves, `spline_basis`. With $k + 2$
equally spaced knots on $[-1, 0]$, the natural cubic splines that vanish at both ends
form a space of dimension k. Its basis $\phi_1, ..., \phi_k$ is the one in which both
the roughness $\int \phi''^2$ and the sum of squares at the knots are diagonal. All have
the same roughness, with $|\phi_1| \le 1$; $\phi_j$ then looks like $\sin(j \pi u) /
j^2$. Where coefficients have Gaussian priors of equal widths, a curve is penalised by
its roughness.
"""

import abc
from dataclasses import fields
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._util.arrays import as_parameter, as_vector_parameter
from .network import Network

# The number of curves in a spline history that is chosen by name. It has six knots.
USUAL_CURVES = 4


class TruncatedPowers(NamedTuple):
    r"""Natural cubic splines as $\beta_j u + \alpha_j + \sum_i \delta_{ji} (u -
    \kappa_i)_+^3$ with the knots $\kappa$, one row j for each curve."""

    knots: np.ndarray  # [k + 2]
    constant: np.ndarray  # [k]
    linear: np.ndarray  # [k]
    cubic: np.ndarray  # [k, k + 2]


@lru_cache
def spline_basis(k: int) -> TruncatedPowers:
    """Return the basis of k curves.

    >>> basis = spline_basis(4)
    >>> basis.knots
    array([-1. , -0.8, -0.6, -0.4, -0.2,  0. ])
    """
    knots = np.linspace(-1.0, 0.0, k + 2)
    h = 1 / (k + 1)
    # Second derivatives gamma at the inner knots: the roughness is gamma' R gamma.
    R = h * (2 / 3 * np.eye(k) + (np.eye(k, k=1) + np.eye(k, k=-1)) / 6)
    # The third derivative jumps at each knot by the change of the slope of gamma.
    hats = np.eye(k + 2)[:, 1:-1]
    slopes = np.diff(hats, axis=0) / h
    cubic = np.diff(slopes, axis=0, prepend=0.0, append=0.0) / 6
    at_knots = np.maximum(knots[:, None] - knots, 0.0) ** 3 @ cubic
    # The curve begins at zero, and a straight line brings its end to zero.
    linear = -at_knots[-1]
    at_knots += (knots[:, None] + 1) * linear
    # Whiten the roughness, then rotate.
    whiten = np.linalg.inv(np.linalg.cholesky(R)).T
    squares, rotate = np.linalg.eigh(whiten.T @ at_knots.T @ at_knots @ whiten)
    chosen = whiten @ rotate[:, np.argsort(-squares)]
    values = at_knots @ chosen
    u = np.linspace(-1.0, 0.0, 201)
    powers = np.maximum(u[:, None] - knots, 0.0) ** 3
    first = (u + 1) * (linear @ chosen[:, 0]) + powers @ cubic @ chosen[:, 0]
    # The sign is that of an inner knot, so that it does not depend on rounding.
    chosen = chosen * np.sign(values[-2]) / float(np.max(np.abs(first)))
    linear = linear @ chosen
    return TruncatedPowers(knots, linear, linear, (cubic @ chosen).T)


class AbstractHistory(eqx.Module):
    r"""The base class of histories, which map a time t <= 0 to the state at that time.

    A subclass holds its parameters as fields and computes the state, a vector of d
    components, in `__call__`. The state must be continuous and differentiable in t,
    because the gradient with respect to the delay uses the derivative of the history.

    `frequencies` names the fields that are angular frequencies, such as `("omega",)`
    for $\sin(\omega t)$. A sum of squares has many local minima along a frequency, so a
    least-squares search keeps these parameters within the frequencies that the data can
    resolve, unless the user gives bounds: positive, with a period of at most twice the
    time span of the data and at least two sampling intervals.

    A history that equations can be given by name has a `word`, and `latex`, its formula
    with # for the index of a state. If it `is_compared`, it has a method `nearest`, and
    `history="auto"` tries it.
    """

    frequencies: ClassVar[tuple[str, ...]] = ()
    word: ClassVar[str] = ""
    latex: ClassVar[str] = ""
    is_compared: ClassVar[bool] = False

    @abc.abstractmethod
    def __call__(self, t: jax.Array) -> jax.Array:
        """Return the state at time `t`, of shape (d,)."""

    @classmethod
    def blank(cls, d: int) -> Self:
        """Return the history of d states, with NaN for what is not known."""
        return cls(**{field.name: np.full(d, np.nan) for field in fields(cls)})

    def nearest(self, t: np.ndarray, x: np.ndarray) -> "list[AbstractHistory]":
        """Return the histories of this class that are nearest to the states `x`, [N,
        d], at the times `t`, by least squares."""
        raise NotImplementedError


def frequency_fields(history: Any) -> tuple[str, ...]:
    """Return the names of a history's fields that are angular frequencies.

    Only an `AbstractHistory` declares frequencies: a function has none.

    >>> frequency_fields(Periodic(A=2.0, omega=1.0, b=1.0))
    ('omega',)
    >>> frequency_fields(lambda t: jnp.ones(1))
    ()
    """
    if isinstance(history, AbstractHistory):
        return type(history).frequencies
    return ()


@final
class Constant(AbstractHistory):
    r"""A constant history: $X_0(t) = b$.

    >>> Constant(b=2.0)(-0.5)
    Array([2.], dtype=float64)
    """

    b: jax.Array = eqx.field(converter=as_vector_parameter)
    word: ClassVar[str] = "constant"
    latex: ClassVar[str] = "b#"
    is_compared: ClassVar[bool] = True

    def __call__(self, t: jax.Array) -> jax.Array:
        return self.b

    def nearest(self, t: np.ndarray, x: np.ndarray) -> list[AbstractHistory]:
        return [Constant(x.mean(axis=0))]


@final
class Affine(AbstractHistory):
    r"""A history that is a straight line in each component: $X_0(t) = a\,t + b$.

    >>> Affine(a=[1.0, 0.0], b=[4.0, 3.0])(-0.5)
    Array([3.5, 3. ], dtype=float64)
    """

    a: jax.Array = eqx.field(converter=as_vector_parameter)
    b: jax.Array = eqx.field(converter=as_vector_parameter)
    word: ClassVar[str] = "affine"
    latex: ClassVar[str] = r"a# \, t + b#"
    is_compared: ClassVar[bool] = True

    def __call__(self, t: jax.Array) -> jax.Array:
        return self.a * t + self.b

    def nearest(self, t: np.ndarray, x: np.ndarray) -> list[AbstractHistory]:
        a, b = _solved([t, np.ones_like(t)], x)
        return [Affine(a, b)]


@final
class Periodic(AbstractHistory):
    r"""A history that is a sine in each component: $X_0(t) = A \sin(\omega t) + b$.

    $(A, \omega)$ and $(-A, -\omega)$ give the same history.

    >>> Periodic(A=2.0, omega=1.0, b=1.0)(0.0)
    Array([1.], dtype=float64)
    """

    A: jax.Array = eqx.field(converter=as_vector_parameter)
    omega: jax.Array = eqx.field(converter=as_vector_parameter)
    b: jax.Array = eqx.field(converter=as_vector_parameter)
    frequencies: ClassVar[tuple[str, ...]] = ("omega",)
    word: ClassVar[str] = "periodic"
    latex: ClassVar[str] = r"A# \, \sin\left(\omega# \, t\right) + b#"
    is_compared: ClassVar[bool] = True

    def __call__(self, t: jax.Array) -> jax.Array:
        return self.A * jnp.sin(self.omega * t) + self.b

    def nearest(self, t: np.ndarray, x: np.ndarray) -> list[AbstractHistory]:
        """Return the nearest sines of several given frequencies."""
        sines: list[AbstractHistory] = []
        for period in (0.75, 1.0, 1.5, 2.0, 3.0, 4.5, 7.0):  # in units of the span of t
            omega = 2 * np.pi / (period * np.ptp(t))
            A, b = _solved([np.sin(omega * t), np.ones_like(t)], x)
            sines.append(Periodic(A, np.full(len(b), omega), b))
        return sines


@final
class Smooth(AbstractHistory):
    r"""A smooth curve in each component: $X_0(t) = a\,t + b + \sum_j c_j\,
    \phi_j(t / L)$.

    The k curves $\phi_j$ are natural cubic splines with k + 2 equally spaced knots,
    which vanish at both ends of $[-1, 0]$: `b` is the state at time zero, `a` the mean
    slope during the `length` L, and the coefficients `c`, of shape (k, d), bend the
    straight line. Before -L the curve goes on as a straight line. All $\phi_j$ are
    equally rough ($\int \phi_j''^2$), so that equal Gaussian priors of the coefficients
    penalise roughness.

    >>> history = Smooth(a=1.0, b=4.0, c=[[0.5], [0.0], [0.0], [0.0]], length=2.0)
    >>> history(-1.0), history(-2.0)
    (Array([3.5], dtype=float64), Array([2.], dtype=float64))
    """

    a: jax.Array = eqx.field(converter=as_vector_parameter)
    b: jax.Array = eqx.field(converter=as_vector_parameter)
    c: jax.Array = eqx.field(converter=as_parameter)
    length: jax.Array = eqx.field(converter=as_parameter)
    word: ClassVar[str] = "spline"
    latex: ClassVar[str] = "s#(t)"
    is_compared: ClassVar[bool] = True

    @classmethod
    def blank(cls, d: int) -> Self:
        unknown = np.full(d, np.nan)
        return cls(unknown, unknown, np.zeros((USUAL_CURVES, d)), np.array(np.nan))

    def __check_init__(self):
        shape = getattr(self.c, "shape", None)
        if shape is not None and (len(shape) != 2 or shape[1:] != self.b.shape):
            raise ValueError(
                f"`c` needs one row for each curve and {len(self.b)} in each row, one "
                f"for each component of `b`, but has the shape {shape}."
            )

    def __call__(self, t: jax.Array) -> jax.Array:
        basis = spline_basis(self.c.shape[0])
        u = t / self.length
        powers = jnp.maximum(u - basis.knots, 0.0) ** 3
        curves = basis.constant + basis.linear * u + basis.cubic @ powers
        return self.a * t + self.b + curves @ self.c

    def nearest(self, t: np.ndarray, x: np.ndarray) -> list[AbstractHistory]:
        """Return the nearest curve that bends over the whole span of the times."""
        length = float(np.ptp(t))
        units = np.eye(len(self.c))[:, :, None]
        curves = [Smooth(0.0, 0.0, c, length) for c in units]
        bends = [np.array([float(curve(s)[0]) for s in t]) for curve in curves]
        a, b, *c = _solved([t, np.ones_like(t), *bends], x)
        return [Smooth(a, b, np.array(c), length)]


def _solved(columns: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    """Return the coefficients, one row for each column, that come nearest to `x`."""
    return np.linalg.lstsq(np.stack(columns, axis=1), x, rcond=None)[0]


@final
class Measured(AbstractHistory):
    r"""A measured past: cubic splines through data, one for each component.

    They are given by the values `x` and the second derivatives $\gamma$, `second`, at
    the `knots`. In the interval of length h from $t_i$ to $t_{i+1}$, with $\alpha =
    (t_{i+1} - t) / h$ and $\beta = 1 - \alpha$,

    $$X_0(t) = \alpha x_i + \beta x_{i+1} + \frac{h^2}{6}\bigl((\alpha^3 -
      \alpha)\gamma_i + (\beta^3 - \beta)\gamma_{i+1}\bigr),$$

    but not below `lowest` or above `highest`. Times are counted from the end of the
    past, which is the time `zero` of the data.

    >>> flat = [[0.0], [0.0]]
    >>> Measured([-2.0, 0.0], [[1.0], [3.0]], flat, [1.0], [3.0], 5.0)(-1.0)
    Array([2.], dtype=float64)
    """

    knots: jax.Array = eqx.field(converter=as_parameter)
    x: jax.Array = eqx.field(converter=as_parameter)
    second: jax.Array = eqx.field(converter=as_parameter)
    lowest: jax.Array = eqx.field(converter=as_vector_parameter)
    highest: jax.Array = eqx.field(converter=as_vector_parameter)
    zero: jax.Array = eqx.field(converter=as_parameter)

    def __call__(self, t: jax.Array) -> jax.Array:
        i = jnp.clip(jnp.sum(self.knots <= t) - 1, 0, len(self.knots) - 2)
        h = self.knots[i + 1] - self.knots[i]
        a = (self.knots[i + 1] - t) / h
        b = 1 - a
        curved = (a**3 - a) * self.second[i] + (b**3 - b) * self.second[i + 1]
        x = a * self.x[i] + b * self.x[i + 1] + h**2 / 6 * curved
        return jnp.clip(x, self.lowest, self.highest)


def time_zero(history: Any) -> float:
    """Return the time at which a history ends: zero, but for a measured past."""
    return float(history.zero) if isinstance(history, Measured) else 0.0


@final
class NeuralHistory(AbstractHistory):
    """A multilayer perceptron N as a function of time: $X_0(t) = N(t)$.

    `d` is the number of components. The network has `depth` hidden layers of `width`
    units each, and `seed` draws its initial weights.

    >>> NeuralHistory(d=2, width=8, depth=1, seed=0)(-0.5).shape
    (2,)
    """

    network: Network
    word: ClassVar[str] = "neural"
    latex: ClassVar[str] = "N#(t)"

    def __init__(self, d: int, width: int = 16, depth: int = 2, *, seed: int = 0):
        self.network = Network(width, depth, outputs=d, seed=seed).sized(1)

    @classmethod
    def blank(cls, d: int) -> Self:
        """Return the history with its random initial weights: it has no others."""
        return cls(d)

    @classmethod
    def of(cls, network: Network, d: int) -> "NeuralHistory":
        """Return the history of d components that is a network of time."""
        if network.outputs not in (1, d):
            raise ValueError(
                f"`history` is a network with {network.outputs} outputs, but the state "
                f"has {d} components. Leave out `outputs`: it gets as many as it needs."
            )
        network = network if network.weights else network.sized(1, d)
        return eqx.tree_at(lambda history: history.network, cls(d, 1, 0), network)

    def __call__(self, t: jax.Array) -> jax.Array:
        return self.network(t)


Neural = NeuralHistory  # the name that saved fits have for it

KINDS = {cls.word: cls for cls in AbstractHistory.__subclasses__() if cls.word}
