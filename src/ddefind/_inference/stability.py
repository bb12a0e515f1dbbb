r"""The equilibria of the fitted equation, and their stability.

At an equilibrium $F(x^*, x^*, \tau) = 0$, with $x^*$ in the place of every delayed
state. Small disturbances u of it obey the linear equation $u' = A u + \sum_q B_q u(t -
\tau_q)$ with $A = \partial F / \partial x$ and $B_q = \partial F / \partial y_q$. They
decay if every characteristic root has a negative real part. The rightmost root
$\lambda$ decides: disturbances change as $e^{\mathrm{Re}\lambda\,t}$ and oscillate with
the period $2\pi / \mathrm{Im}\lambda$.

A delay that depends on the state has its value at $x^*$: its change multiplies the
slope of the past, which is zero at an equilibrium. A distributed delay has $\int
g(s)\,u(t - s)\,ds$ for $u(t - \tau)$. A neutral equation has the further terms
$C_q u'(t - \tau_q)$, with $C_q$ the derivatives of F for the delayed slopes."""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._problem.delays import AbstractDistributedDelay, in_structure, is_delay
from .._problem.general_delays import delay_at, has_slope
from .._problem.kernels import AbstractTerm
from .._search.normal_equations import LeastSquaresModel
from .._util.shown import AbstractShown, Cells, Shown, decimals, format_number
from .characteristic_roots import (
    AbstractPointTerm,
    SlopeTerm,
    StateTerm,
    essential_rate,
    near_root,
    rightmost_roots,
    spectral_radius,
)
from .covariance import Uncertainty, propagate


class LinearisedRhs(NamedTuple):
    """Right-hand side F and its derivatives for several states, each of which is also
    the state at all k delayed times, with a slope of zero."""

    slope: Any  # [count, d], F itself
    A: Any  # [count, d, d], the derivative for the state
    B: Any  # [count, k, d, d], the derivatives for the delayed states
    C: Any  # [count, k, d, d], and for their slopes
    delays: Any  # [count, k], of a distributed one the mean
    # The derivatives of F, [count, d], and of `delays` for the time.
    time_derivative: Any
    delay_derivative: Any

    @property
    def jacobian(self) -> np.ndarray:
        """The derivative of F(x, x, tau, t) for x, [count, d, d]."""
        return np.asarray(self.A + self.B.sum(axis=1))


class LinearEquation(NamedTuple):
    """Linear equation of small disturbances of one equilibrium."""

    A: np.ndarray  # [d, d]
    B: np.ndarray  # [terms, d, d]
    terms: list[AbstractTerm]


def _leaves(model: LeastSquaresModel, theta) -> tuple[Any, list[Any]]:
    """Return the problem at the free values `theta`, and its delays in a list."""
    problem = eqx.combine(model.free.join_values(theta, model.learned), model.fixed)
    return problem, jax.tree.leaves(problem.tau, is_leaf=is_delay)


@eqx.filter_jit
def linearise(model: LeastSquaresModel, theta, x, t) -> LinearisedRhs:
    """Linearise at the states `x`, of shape (count, d), all at the time `t`."""
    problem, leaves = _leaves(model, theta)

    def delays(x, t):
        return jnp.stack([delay_at(leaf, t, x) for leaf in leaves])

    def slope(x, y, z, t):
        pairs = zip(leaves, y, z)
        past = [(a, b) if has_slope(leaf) else a for leaf, a, b in pairs]
        tau = in_structure(problem.tau, [*delays(x, t)])
        return problem.rhs(x, in_structure(problem.tau, past), tau, t)

    def at(x):
        y = [x] * len(leaves)
        z = [jnp.zeros_like(x)] * len(leaves)
        A, B, C, change = jax.jacfwd(slope, argnums=(0, 1, 2, 3))(x, y, z, t)
        return LinearisedRhs(
            slope(x, y, z, t),
            A,
            jnp.stack(B),
            jnp.stack(C),
            delays(x, t),
            change,
            jax.jacfwd(delays, argnums=1)(x, t),
        )

    return jax.vmap(at)(x)


def linear_equation(
    model: LeastSquaresModel, theta: np.ndarray, x: np.ndarray
) -> LinearEquation:
    """Return the equation of small disturbances of the equilibrium `x`."""
    linear = linearise(model, theta, x[None], jnp.zeros(()))
    leaves = _leaves(model, theta)[1]
    delays = np.asarray(linear.delays[0]).tolist()
    terms: list[AbstractTerm] = [
        jax.tree.map(float, leaf())
        if isinstance(leaf, AbstractDistributedDelay)
        else StateTerm(delay)
        for leaf, delay in zip(leaves, delays)
    ]
    neutral = [q for q, leaf in enumerate(leaves) if has_slope(leaf)]
    terms += [SlopeTerm(delays[q]) for q in neutral]
    B = np.concatenate([linear.B[0], np.asarray(linear.C[0])[neutral]])
    return LinearEquation(np.asarray(linear.A[0]), B, terms)


# Newton's method for equilibria: the number of starts on the trajectory (and as many
# around it), and of iterations.
_STARTS, _ITERATIONS = 64, 60
# The largest number of equilibria returned: some equations have a continuum of them.
_MAX_EQUILIBRIA = 8


@final
@dataclass(frozen=True)
class Equilibrium:
    """Equilibrium `x`, with its rightmost characteristic `roots`.

    `growth` is the real part of the first root, the growth rate of disturbances.
    `period` is the period of the oscillation that the root describes, None without one.
    Standard errors are infinite where the data do not determine the number. Where no
    root tells how disturbances decay, as with a distributed delay that forgets the past
    more slowly, the essential rate stands first."""

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
    def is_sure(self) -> bool:
        """Whether the growth rate is more than two standard errors from zero."""
        return abs(self.growth) > 2 * self.growth_error

    @property
    def verdict(self) -> str:
        """`stable` or `unstable`, with ", but not surely" if it is not sure."""
        verdict = "stable" if self.is_stable else "unstable"
        return verdict if self.is_sure else f"{verdict}, but not surely"


@final
@dataclass(frozen=True)
class Stability(AbstractShown):
    """Equilibria of a fitted equation, the one nearest to the trajectory first. `notes`
    say for which others the stability cannot be judged."""

    names: tuple[str, ...]
    equilibria: tuple[Equilibrium, ...]
    notes: tuple[str, ...] = ()

    def cells(self) -> Cells:
        """Return the table, with a row for each equilibrium."""
        rows = []
        for each in self.equilibria:
            x = [f"{value:.5g}" for value in each.x]
            growth = _with_error(each.growth, each.growth_error)
            period = "-"
            if each.period is not None and each.period_error is not None:
                period = _with_error(each.period, each.period_error)
            rows.append((*x, growth, period, each.verdict))
        header = (*self.names, "growth rate", "period", "")
        return Cells(header, rows, left=(len(self.names) + 2,))

    def sentences(self) -> list[str]:
        """Return what is printed below the table."""
        if not self.equilibria:
            return list(self.notes or ["No equilibrium was found near the trajectory."])
        first = self.equilibria[0]
        change = "die out" if first.is_stable else "grow"
        manner = "without oscillating"
        if first.period is not None:
            manner = f"in oscillations with a period of {first.period:.4g}"
        state = ", ".join(f"{n} = {x:.4g}" for n, x in zip(self.names, first.x))
        doubt = "" if first.is_sure else ", but not surely"
        sentence = f"At {state} small disturbances {change} {manner}{doubt}."
        return [sentence, *self.notes]

    def shown(self) -> Shown:
        """Return the table, if there is an equilibrium, and the sentences."""
        table = [self.cells(), ""] if self.equilibria else []
        return Shown([*table, *self.sentences()])


def _with_error(value: float, error: float) -> str:
    if not np.isfinite(error):
        return f"{value:.4g} (not determined)"
    return f"{format_number(value, decimals(value, error))} +- {error:.2g}"


def stability(
    uncertainty: Uncertainty, path: np.ndarray, names: tuple[str, ...]
) -> Stability:
    """Find the equilibria near a trajectory, and their stability.

    `path` are states along the trajectory, of shape (times, d), and `names` their
    names."""
    model, theta = uncertainty.setup.model, uncertainty.theta
    every = -(-len(path) // 16)
    _check_autonomous(model, theta, path[::every], uncertainty.setup.data.T)
    equilibria, notes = [], []
    for x in _find_equilibria(model, theta, path):
        equation = linear_equation(model, theta, x)
        if (reason := _why_not_judged(equation)) is None:
            equilibria.append(_equilibrium(uncertainty, x, equation))
        else:
            state = ", ".join(f"{n} = {value:.4g}" for n, value in zip(names, x))
            notes.append(f"The stability of {state} cannot be judged: {reason}")
    return Stability(names, tuple(equilibria), tuple(notes))


def _why_not_judged(equation: LinearEquation) -> str | None:
    """Say why the roots of an equation do not decide on its stability, if so."""
    delays = [t.tau for t in equation.terms if isinstance(t, AbstractPointTerm)]
    shortest = min(delays, default=np.inf)
    if shortest < 0:
        return f"a delay is negative there: {shortest:.4g}."
    is_slope = [isinstance(term, SlopeTerm) for term in equation.terms]
    if any(isinstance(t, SlopeTerm) and t.tau == 0 for t in equation.terms):
        return "a delay is zero there, and the equation reads the slope after it."
    if essential_rate(*equation) >= 0:
        size = spectral_radius(np.abs(equation.B[is_slope]).sum(axis=0))
        return (
            "the equation is neutral, and the coefficients of delayed slopes add up "
            f"to {size:.4g} there. From 1 on, disturbances of any high frequency may "
            "grow."
        )
    return None


def _check_autonomous(
    model: LeastSquaresModel, theta: np.ndarray, path: np.ndarray, T: float
) -> None:
    """Raise an error if the equation depends on the time explicitly."""
    switches = np.clip(np.asarray(_leaves(model, theta)[0].switch_times), 0.0, T)
    ends = np.unique(np.concatenate([[0.0, T], switches]))
    between = 0.5 * (ends[1:] + ends[:-1])
    first = None
    for t in (0.0, 0.37 * T, T, *between):
        linear = linearise(model, theta, path, jnp.asarray(t))
        first = linear if first is None else first
        if _delays_change(linear, first.delays, T):
            raise ValueError(
                "A delay depends on the time t, so that the equation has no "
                "characteristic roots. `stability` is for delays that are constant, or "
                "depend on the state alone."
            )
        size = np.max(np.abs(linear.slope), initial=0.0)
        changes = np.max(np.abs(linear.time_derivative)) * T > 1e-9 * size
        if changes or np.max(np.abs(linear.slope - first.slope)) > 1e-9 * size:
            raise ValueError(
                "The model depends on the time t: it has no equilibrium. `stability` "
                "is for equations of the state and the delayed states alone."
            )


def _delays_change(linear: LinearisedRhs, delays: Any, T: float) -> bool:
    """Whether the delays have a slope in time, or differ from `delays`."""
    change = np.abs(linear.delay_derivative) * T + np.abs(linear.delays - delays)
    return bool(np.any(change > 1e-9 * np.abs(delays)))


def _find_equilibria(
    model: LeastSquaresModel, theta: np.ndarray, path: np.ndarray
) -> list[np.ndarray]:
    """Find the distinct equilibria by Newton's method from states on the trajectory and
    around it, the one nearest to the second half of the trajectory first."""
    random = np.random.default_rng(0)
    low, high = path.min(axis=0), path.max(axis=0)
    margin = 0.5 * (high - low) + 0.1 * np.maximum(np.abs(low), np.abs(high))
    around = random.uniform(low - margin, high + margin, (_STARTS, path.shape[1]))
    on_path = path[np.linspace(0, len(path) - 1, _STARTS).astype(int)]
    x = np.concatenate([path[-1:], path.mean(axis=0)[None], on_path, around])
    scale = np.maximum(np.max(np.abs(path), axis=0), 1e-300)
    with np.errstate(all="ignore"):
        for _ in range(_ITERATIONS):
            linear = linearise(model, theta, x, jnp.zeros(()))
            x = x - _newton_step(linear.jacobian, linear.slope, scale)
    linear = linearise(model, theta, x, jnp.zeros(()))
    jacobian = np.abs(linear.jacobian)
    size = np.einsum("kij,kj->ki", jacobian, np.abs(x) + 1e-6 * scale)
    has_converged = np.all(np.abs(np.asarray(linear.slope)) <= 1e-9 * size, axis=1)
    is_near = np.all(np.abs(x - path.mean(axis=0)) <= 100 * scale, axis=1)
    states = x[has_converged & is_near & np.all(np.isfinite(x), axis=1)]
    middle = path[len(path) // 2 :].mean(axis=0)
    states = states[np.argsort(np.sum(((states - middle) / scale) ** 2, axis=1))]
    distinct: list[np.ndarray] = []
    for state in states:
        if not any(np.all(np.abs(state - x) < 1e-6 * scale) for x in distinct):
            distinct.append(np.where(np.abs(state) < 1e-12 * scale, 0.0, state))
    return distinct[:_MAX_EQUILIBRIA]


def _newton_step(jacobian: np.ndarray, slope: Any, scale: np.ndarray) -> np.ndarray:
    """Compute the steps of Newton's method, limited to the size `scale` of each state:
    far from an equilibrium they could lead anywhere."""
    safe = np.where(np.isfinite(jacobian), jacobian, 0.0)
    right = np.where(np.isfinite(slope), np.asarray(slope), 0.0)
    step = np.einsum("kij,kj->ki", np.linalg.pinv(safe), right)
    longest = np.max(np.abs(step) / scale, axis=1, keepdims=True)
    return step / np.maximum(longest, 1.0)


def _equilibrium(
    uncertainty: Uncertainty, x: np.ndarray, equation: LinearEquation
) -> Equilibrium:
    """Compute the roots of the equilibrium `x`, and their standard errors."""
    model, theta = uncertainty.setup.model, uncertainty.theta
    roots = rightmost_roots(*equation)
    first = roots[0]
    errors = uncertainty.standard_errors
    sizes = np.maximum(np.abs(theta), np.where(np.isfinite(errors), errors, 0.0))
    steps = 1e-5 * np.where(sizes > 0, sizes, 1e-3)
    slopes = (_root_derivative(model, theta, x, first, *s) for s in enumerate(steps))
    gradient = np.array(list(slopes))
    growth_error = _standard_error(uncertainty, np.real(gradient), abs(first))
    period = period_error = None
    if first.imag != 0:
        period = 2 * np.pi / first.imag
        period_gradient = -period / first.imag * np.imag(gradient)
        period_error = _standard_error(uncertainty, period_gradient, period)
    return Equilibrium(x, roots, float(first.real), growth_error, period, period_error)


def _standard_error(
    uncertainty: Uncertainty, gradient: np.ndarray, size: float
) -> float:
    """Compute the standard error of a number of this `size` and `gradient` for the free
    values; infinite if it is not determined, or has no gradient."""
    if not np.all(np.isfinite(gradient)):
        return np.inf
    propagated = propagate(uncertainty, gradient, 1e-6 * size)
    return np.inf if propagated.moved.any() else float(propagated.sd)


def _root_derivative(
    model: LeastSquaresModel,
    theta: np.ndarray,
    x: np.ndarray,
    root: complex,
    j: int,
    step: float,
) -> complex:
    """Differentiate a characteristic root for free value j, by central differences. The
    equilibrium is computed anew on both sides, since it moves with the value."""
    roots = []
    for sign in (-1, 1):
        shifted, state = theta.copy(), x[None]
        shifted[j] += sign * step
        for _ in range(4):
            linear = linearise(model, shifted, state, jnp.zeros(()))
            unlimited = np.full(x.shape[0], np.inf)
            state = state - _newton_step(linear.jacobian, linear.slope, unlimited)
        roots.append(near_root(*linear_equation(model, shifted, state[0]), root))
    below, above = roots
    if below is None or above is None:
        return complex(np.nan)
    return (above - below) / (2 * step)
