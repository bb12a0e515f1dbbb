r"""The linear equation of small disturbances u of a state x.

With A and $B_q$ the derivatives of the right-hand side F for the state and for the
delayed states, it is $u' = A u + \sum_q B_q u(t - \tau_q)$. A delay that depends on the
state has its value in x: its change multiplies the slope of the past, which is zero at
an equilibrium. A distributed delay has $\int g(s)\,u(t - s)\,ds$ for $u(t - \tau)$. A
neutral equation has the further terms $C_q u'(t - \tau_q)$, with $C_q$ the derivatives
of F for the delayed slopes."""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._least_squares.normal_equations import LeastSquaresModel
from .._problem.delays import in_structure, is_delay
from .._problem.general_delays import (
    AbstractGammaDelay,
    AbstractUniformDelay,
    AbstractVaryingDelay,
    has_slope,
)
from .characteristic_terms import (
    AbstractPointTerm,
    AbstractTerm,
    GammaTerm,
    SlopeTerm,
    StateTerm,
    UniformTerm,
)


class Linearisation(NamedTuple):
    """The right-hand side F and its derivatives, for several states, each of which is
    also the state at all k delayed times, where its slope is zero."""

    slope: Any  # [count, d], F itself
    A: Any  # [count, d, d], the derivative for the state
    B: Any  # [count, k, d, d], the derivatives for the delayed states
    C: Any  # [count, k, d, d], and for their slopes
    numbers: Any  # [count, k, 2], the delay twice, or the two numbers of a distribution
    # The derivatives of F, [count, d], and of `numbers` for the time.
    time_derivative: Any
    number_derivative: Any

    @property
    def jacobian(self) -> np.ndarray:
        """The derivative of F(x, x, tau, t) for x, [count, d, d]."""
        return np.asarray(self.A + self.B.sum(axis=1))


@final
@dataclass(frozen=True)
class LinearEquation:
    """The linear equation of small disturbances of one equilibrium."""

    A: np.ndarray  # [d, d]
    B: np.ndarray  # [terms, d, d]
    terms: list[AbstractTerm]

    @property
    def shortest(self) -> float:
        """The shortest delay, which could be negative."""
        delays = [t.tau for t in self.terms if isinstance(t, AbstractPointTerm)]
        return min(delays, default=np.inf)

    @property
    def slope_size(self) -> float:
        """The sum of the absolute coefficients of delayed slopes; of matrices, the
        spectral radius of their sum."""
        slopes = [isinstance(term, SlopeTerm) for term in self.terms]
        total = np.abs(self.B[slopes]).sum(axis=0)
        return float(np.max(np.abs(np.linalg.eigvals(total))))


def _leaves(model: LeastSquaresModel, theta) -> tuple[Any, list[Any]]:
    """The problem at the free values `theta`, and its delays in a list."""
    problem = eqx.combine(model.free.join_values(theta, model.learned), model.fixed)
    return problem, jax.tree.leaves(problem.tau, is_leaf=is_delay)


@eqx.filter_jit
def linearise(model: LeastSquaresModel, theta, x, t) -> Linearisation:
    """The linearisation at the states `x`, of shape (count, d), all at the time `t`."""
    problem, leaves = _leaves(model, theta)

    def numbers(x, t):
        def one(leaf):
            if isinstance(leaf, AbstractGammaDelay | AbstractUniformDelay):
                return leaf()
            if isinstance(leaf, AbstractVaryingDelay):
                value = leaf(t, x)
            else:
                value = leaf() if is_delay(leaf) else leaf
            return jnp.stack([value, value])

        return jnp.stack([one(leaf) for leaf in leaves])

    def slope(x, y, z, t):
        pairs = zip(leaves, y, z)
        past = [(a, b) if has_slope(leaf) else a for leaf, a, b in pairs]
        found = numbers(x, t)
        delays = [
            row[0] if isinstance(leaf, AbstractGammaDelay) else row.mean()
            for leaf, row in zip(leaves, found)
        ]
        tau = in_structure(problem.tau, delays)
        return problem.rhs(x, in_structure(problem.tau, past), tau, t)

    def at(x):
        y = [x] * len(leaves)
        z = [jnp.zeros_like(x)] * len(leaves)
        A, B, C, change = jax.jacfwd(slope, argnums=(0, 1, 2, 3))(x, y, z, t)
        return Linearisation(
            slope(x, y, z, t),
            A,
            jnp.stack(B),
            jnp.stack(C),
            numbers(x, t),
            change,
            jax.jacfwd(numbers, argnums=1)(x, t),
        )

    return jax.vmap(at)(x)


def linear_equation(
    model: LeastSquaresModel, theta: np.ndarray, x: np.ndarray
) -> LinearEquation:
    """The equation of small disturbances of the equilibrium `x`."""
    linear = linearise(model, theta, x[None], jnp.zeros(()))
    leaves = _leaves(model, theta)[1]
    numbers = np.asarray(linear.numbers[0]).tolist()
    terms: list[AbstractTerm] = []
    for leaf, (first, second) in zip(leaves, numbers):
        if isinstance(leaf, AbstractGammaDelay):
            terms.append(GammaTerm(first, second))
        elif isinstance(leaf, AbstractUniformDelay):
            terms.append(UniformTerm(first, second))
        else:
            terms.append(StateTerm(first))
    neutral = [q for q, leaf in enumerate(leaves) if has_slope(leaf)]
    terms += [SlopeTerm(numbers[q][0]) for q in neutral]
    B = np.concatenate([linear.B[0], np.asarray(linear.C[0])[neutral]])
    return LinearEquation(np.asarray(linear.A[0]), B, terms)
