r"""Where the fitted equation rests, and whether it stays there.

At an equilibrium $F(x^*, x^*, \tau) = 0$. Small disturbances obey $u' = A u + B u(t -
\tau)$ with $A = F_x$ and $B = F_y$; they die out if every characteristic root has a
negative real part. The rightmost root is $\lambda$: disturbances change as
$e^{\mathrm{Re}\lambda\,t}$, with the period $2\pi / \mathrm{Im}\lambda$."""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._least_squares.normal_equations import Model
from .._util.text_table import decimals, format_number, html_table, table_lines
from .characteristic_roots import near_root, rightmost_roots
from .covariance import Uncertainty
from .delta_method import propagate

# Newton's method for equilibria: starts, and iterations.
_STARTS, _ITERATIONS = 64, 60
# More are shown of no equation: some have whole lines of them.
_MOST = 8


@final
@dataclass(frozen=True)
class Equilibrium:
    """A state `x` at rest, with the rightmost characteristic `roots`.

    `growth` is the real part of the first, with its standard error; `period` that of
    the oscillation it stands for, None without one. Errors are infinite where the data
    do not determine them."""

    x: np.ndarray
    roots: np.ndarray
    growth: float
    growth_error: float
    period: float | None
    period_error: float | None

    @property
    def is_stable(self) -> bool:
        return self.growth < 0

    @property
    def verdict(self) -> str:
        """`stable` or `unstable`, or that the data leave it open: zero is within two
        standard errors of the growth."""
        found = "stable" if self.is_stable else "unstable"
        sure = abs(self.growth) > 2 * self.growth_error
        return found if sure else f"{found}, but not surely"


@final
@dataclass(frozen=True)
class Stability:
    """The equilibria of a fitted equation, the one nearest to the trajectory first."""

    names: tuple[str, ...]
    equilibria: tuple[Equilibrium, ...]

    def _rows(self) -> list[tuple[str, ...]]:
        rows = [(*self.names, "growth rate", "period", "")]
        for each in self.equilibria:
            x = [f"{value:.5g}" for value in each.x]
            growth = _with_error(each.growth, each.growth_error)
            period = "-"
            if each.period is not None and each.period_error is not None:
                period = _with_error(each.period, each.period_error)
            rows.append((*x, growth, period, each.verdict))
        return rows

    def _below(self) -> list[str]:
        if not self.equilibria:
            return ["No equilibrium was found near the trajectory."]
        first = self.equilibria[0]
        grow = "die out" if first.is_stable else "grow"
        how = "without oscillating"
        if first.period is not None:
            how = f"in oscillations with a period of {first.period:.4g}"
        where = ", ".join(f"{n} = {x:.4g}" for n, x in zip(self.names, first.x))
        return [f"At {where} small disturbances {grow} {how}."]

    def __str__(self) -> str:
        table = table_lines(self._rows(), left=(len(self.names) + 2,))
        table = table if self.equilibria else []
        return "\n".join([*table, *([""] if table else []), *self._below()])

    def _repr_html_(self) -> str:
        return html_table(self._rows(), self._below())


def _with_error(value: float, error: float) -> str:
    if not np.isfinite(error):
        return f"{value:.4g} (not determined)"
    return f"{format_number(value, decimals(value, error))} +- {error:.2g}"


class _Linear(NamedTuple):
    """The slope at rest, its derivatives for the state and the delayed state, the
    delay, and the derivative of the slope for the time."""

    slope: Any
    A: Any
    B: Any
    tau: Any
    drift: Any


@eqx.filter_jit
def _linearise(model: Model, theta, x, t) -> _Linear:
    """At states `x` (count, d), all at the time `t`."""
    params = model.free.join(theta, model.learned)
    system = model.extended(theta, 1, 1.0).system

    def slope(x, y, t):
        return system.slope(params.rhs, x, y, params.tau, t)

    def one(x):
        A, B, drift = jax.jacfwd(slope, argnums=(0, 1, 2))(x, x, t)
        return _Linear(slope(x, x, t), A, B, params.tau, drift)

    return jax.vmap(one)(x)


def stability(
    uncertainty: Uncertainty, path: np.ndarray, names: tuple[str, ...]
) -> Stability:
    """The equilibria near the states of a `path` (times, d), and their stability."""
    model, theta = uncertainty.setup.model, uncertainty.theta
    _check_autonomous(
        model, theta, path[:: -(-len(path) // 16)], uncertainty.setup.data.T
    )
    found = _equilibria(model, theta, path)
    return Stability(names, tuple(_judge(uncertainty, x) for x in found))


def _check_autonomous(model: Model, theta, path: np.ndarray, T: float) -> None:
    for t in (0.0, 0.37 * T, T):
        linear = _linearise(model, theta, path, jnp.asarray(t))
        size = np.max(np.abs(linear.slope), initial=0.0)
        if np.max(np.abs(linear.drift)) * T > 1e-9 * size:
            raise ValueError(
                "The model depends on the time t: it has no equilibrium. `stability` "
                "is for equations of the state and the delayed state alone."
            )


def _equilibria(model: Model, theta, path: np.ndarray) -> list[np.ndarray]:
    """Newton's method from states on the path and around it."""
    random = np.random.default_rng(0)
    low, high = path.min(axis=0), path.max(axis=0)
    margin = 0.5 * (high - low) + 0.1 * np.maximum(np.abs(low), np.abs(high))
    around = random.uniform(low - margin, high + margin, (_STARTS, path.shape[1]))
    on = path[np.linspace(0, len(path) - 1, _STARTS).astype(int)]
    x = np.concatenate([path[-1:], path.mean(axis=0)[None], on, around])
    scale = np.maximum(np.max(np.abs(path), axis=0), 1e-300)
    with np.errstate(all="ignore"):
        for _ in range(_ITERATIONS):
            linear = _linearise(model, theta, x, jnp.zeros(()))
            x = x - _newton_step(np.asarray(linear.A + linear.B), linear.slope, scale)
    linear = _linearise(model, theta, x, jnp.zeros(()))
    jacobian = np.abs(np.asarray(linear.A + linear.B))
    size = np.einsum("kij,kj->ki", jacobian, np.abs(x) + 1e-6 * scale)
    rests = np.all(np.abs(np.asarray(linear.slope)) <= 1e-9 * size, axis=1)
    near = np.all(np.abs(x - path.mean(axis=0)) <= 100 * scale, axis=1)
    found = x[rests & near & np.all(np.isfinite(x), axis=1)]
    middle = path[len(path) // 2 :].mean(axis=0)
    found = found[np.argsort(np.sum(((found - middle) / scale) ** 2, axis=1))]
    distinct: list[np.ndarray] = []
    for each in found:
        if not any(np.all(np.abs(each - x) < 1e-6 * scale) for x in distinct):
            distinct.append(np.where(np.abs(each) < 1e-12 * scale, 0.0, each))
    return distinct[:_MOST]


def _newton_step(jacobian: np.ndarray, slope, scale: np.ndarray) -> np.ndarray:
    """Steps no longer than the path is large: Newton's own may leave the map."""
    safe = np.where(np.isfinite(jacobian), jacobian, 0.0)
    right = np.where(np.isfinite(slope), np.asarray(slope), 0.0)
    step = np.einsum("kij,kj->ki", np.linalg.pinv(safe), right)
    longest = np.max(np.abs(step) / scale, axis=1, keepdims=True)
    return step / np.maximum(longest, 1.0)


def _judge(uncertainty: Uncertainty, x: np.ndarray) -> Equilibrium:
    model, theta = uncertainty.setup.model, uncertainty.theta
    linear = _linearise(model, theta, x[None], jnp.zeros(()))
    A, B, tau = (np.asarray(a[0]) for a in (linear.A, linear.B, linear.tau))
    roots = rightmost_roots(A, B, float(tau))
    first = roots[0]
    errors = uncertainty.standard_errors
    sizes = np.maximum(np.abs(theta), np.where(np.isfinite(errors), errors, 0.0))
    steps = 1e-5 * np.where(sizes > 0, sizes, 1e-3)
    moves = np.array(
        [
            _slope_of_root(model, theta, x, first, j, step)
            for j, step in enumerate(steps)
        ]
    )
    growth_error = _error(uncertainty, np.real(moves), abs(first))
    period = period_error = None
    if first.imag != 0:
        period = 2 * np.pi / first.imag
        slopes = -period / first.imag * np.imag(moves)
        period_error = _error(uncertainty, slopes, period)
    return Equilibrium(x, roots, float(first.real), growth_error, period, period_error)


def _error(uncertainty: Uncertainty, gradient: np.ndarray, size: float) -> float:
    """The standard error of a number with this gradient; infinite where it has none."""
    if not np.all(np.isfinite(gradient)):
        return np.inf
    found = propagate(uncertainty, gradient, 1e-6 * size)
    return np.inf if found.moved.any() else float(found.sd)


def _slope_of_root(
    model: Model, theta, x: np.ndarray, root: complex, j: int, step: float
) -> complex:
    """The derivative of a root for a free value, by central differences: the
    equilibrium moves along."""
    moved = []
    for sign in (-1, 1):
        there, at = theta.copy(), x[None]
        there[j] += sign * step
        for _ in range(4):
            linear = _linearise(model, there, at, jnp.zeros(()))
            full = np.ones(x.shape[0]) * np.inf
            at = at - _newton_step(np.asarray(linear.A + linear.B), linear.slope, full)
        linear = _linearise(model, there, at, jnp.zeros(()))
        A, B, tau = (np.asarray(a[0]) for a in (linear.A, linear.B, linear.tau))
        moved.append(near_root(A, B, float(tau), root))
    below, above = moved
    if below is None or above is None:
        return complex(np.nan)
    return (above - below) / (2 * step)
