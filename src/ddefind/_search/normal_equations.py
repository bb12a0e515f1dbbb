r"""The least-squares problem of a delay equation, and its normal equations.

The sum of squares compares the model $\hat x$ with the measured values $x_{ji}$ of
quantity i at time $t_j$:

$$S(\theta) = \sum_{j,i} w_{ji}\,\bigl(\hat x_i(t_j; \theta) - x_{ji}\bigr)^2
  + \text{priors}, \qquad w_{ji} = 1 / \mathrm{sd}_{ji}^2.$$

`LeastSquaresModel` holds what all fits of one problem share. `normal_equations`
evaluates S and its linearisation. In a study S is the sum over its `Experiments`.

With hundreds of free values, the weights of networks, the matrix $J^T J$ takes longer
to add up, point by point, than the equation takes to solve. Then the rows of the
Jacobian J are stored (`StoredRows`), one for each of the M measured values, and LAPACK
solves for a step p. With the diagonal matrices A of the priors and D of the scales, and
$B = A + \lambda D^2$, it solves

$$(J^T J + B)\,p = -g, \qquad g = J^T r + A\,(\theta - m),$$

if there are no more values than rows. Otherwise the smaller system is that of the rows
(Woodbury's identity):

$$p = -B^{-1} g + B^{-1} J^T (I + J B^{-1} J^T)^{-1} J B^{-1} g.$$"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import cho_factor, cho_solve

from .._engine.engine import AbstractEngine, AbstractSensitivity, Points, System
from .._problem.free_parameters import FreeParameters
from .._problem.problem import Problem
from .._problem.without_doses import hidden_count, without_doses
from .._util.arrays import read, write
from .guide import Guide, GuidedRhs
from .levenberg_marquardt import (
    Convergence,
    NormalEquations,
    Priors,
    prior_gram,
    prior_terms,
)
from .likelihood import Likelihood, likelihood_equations


@final
class Experiments(eqx.Module):
    r"""What differs between the experiments of a study, for compiled programs.

    Every experiment has a problem of the same shape, in which only constants differ:
    known values, tables of inputs, doses. They are stacked, so that one loop inside a
    compiled program serves any number of experiments. Experiment e has the free values
    $\theta_e = P_e\,\theta + c_e$, and adds to the normal equations of the study

    $$G = \sum_e \begin{pmatrix} 1 & 0 \\ 0 & P_e \end{pmatrix}^T G_e
          \begin{pmatrix} 1 & 0 \\ 0 & P_e \end{pmatrix}.$$

    - `free`: the free values of one experiment.
    - `learned`, `fixed`: the parameters of the problems with and without free values,
      each array with a first axis over the experiments.
    - `selection` [experiments, local values, joint values] and `known` [experiments,
      local values]: the P and the c above.
    - `rows` [experiments, 2]: the first row of each in the data, and the first after
      it.
    - `ends` [experiments]: the last times.
    """

    free: FreeParameters = eqx.field(static=True)
    learned: Problem
    fixed: Problem
    selection: Any
    known: Any
    rows: Any
    ends: Any

    @property
    def count(self) -> int:
        """The number of experiments."""
        return self.known.shape[0]

    def local(self, e: Any, theta: jax.Array) -> jax.Array:
        """Return the free values of experiment `e`."""
        picked = jnp.sum(read(self.selection, e) * theta, axis=1)
        return picked + read(self.known, e)

    def joint(self, e: Any, gram: jax.Array) -> jax.Array:
        """Convert normal equations of experiment `e` to the joint values. Products are
        written as sums, which XLA compiles into loops."""
        P = read(self.selection, e)
        P = jnp.pad(P, ((1, 0), (1, 0))).at[0, 0].set(1.0)
        half = jnp.sum(gram[:, :, None] * P[None], axis=1)
        return jnp.sum(P[:, :, None] * half[:, None, :], axis=0)

    def joint_of(self, e: Any, rows: jax.Array) -> jax.Array:
        """Convert rows [..., 1 + local values] of experiment `e`, values and
        derivatives, to the joint values. A joint value is at most one of the local
        values of an experiment."""
        selection = read(self.selection, e)
        derivatives = jnp.take(rows[..., 1:], jnp.argmax(selection, axis=0), axis=-1)
        is_used = jnp.any(selection > 0, axis=0)
        derivatives = jnp.where(is_used, derivatives, 0.0)
        return jnp.concatenate([rows[..., :1], derivatives], axis=-1)


def stack(problems: Sequence[Problem]) -> Problem:
    """Stack problems, or parts of them, along a first axis of each array. What is no
    array must be the same in all."""

    def stacked(*leaves):
        if not _is_array(leaves[0]):
            return leaves[0]
        array = np.stack([np.asarray(leaf) for leaf in leaves])
        # An array of NumPy is a table of constants, and stays one.
        return array if isinstance(leaves[0], np.ndarray) else jnp.asarray(array)

    return jax.tree.map(stacked, *problems)


def pick(tree: Any, e: Any) -> Any:
    """Return the part of a stacked tree that belongs to experiment `e`."""

    def picked(leaf):
        if not _is_array(leaf):
            return leaf
        return leaf[e] if isinstance(e, int) else read(leaf, e)

    return jax.tree.map(picked, tree)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


# The system of the rows is solved with at least this damping, so that it stays accurate
# where a value has no prior.
_LEAST_IN_DUAL = 1e-6
# The c in the scale of values with a prior. With 0.3 network fits take half of the
# evaluations that they take with 1 or with scales of their own.
_SHARE_OF_LARGEST = 0.3
# From this many standard deviations on, a residual counts linearly in a robust model.
_OUTLYING = 1.345


class StoredRows(NamedTuple):
    """The sum of squares and its linearisation at one point, as a table.

    `rows` are [r J] for all weighted residuals, and `side` and `weight` what the priors
    add to J^T r and to the diagonal of J^T J; `corner` is what they add to S."""

    rows: Any  # [M, 1 + p]
    corner: Any
    side: Any  # [p]
    weight: Any  # [p]
    squares: Any  # [k]

    @property
    def S(self) -> jax.Array:
        """The sum of squares."""
        return jnp.sum(self.rows[:, 0] ** 2) + self.corner

    @property
    def is_finite(self) -> jax.Array:
        """Whether all numbers are finite."""
        return jnp.all(jnp.isfinite(self.rows)) & jnp.isfinite(self.corner)

    @property
    def gradient(self) -> jax.Array:
        """J^T r."""
        return self.rows[:, 1:].T @ self.rows[:, 0] + self.side

    @property
    def diagonal(self) -> jax.Array:
        """The diagonal of J^T J."""
        return jnp.sum(self.rows[:, 1:] ** 2, axis=0) + self.weight

    @property
    def scales(self) -> jax.Array:
        r"""D: the root of the diagonal of J^T J. For values with a prior of precision a
        it is $c \sqrt{a R}$, where R is the largest ratio of that diagonal to a: one
        length for all of them. With scales of their own, weights that hardly matter run
        far away, and a fit creeps along a curved valley."""
        diagonal, has_prior = self.diagonal, self.weight > 0
        ratio = diagonal / jnp.where(has_prior, self.weight, 1.0)
        largest = jnp.max(jnp.where(has_prior, ratio, 0.0))
        shared = _SHARE_OF_LARGEST * jnp.sqrt(self.weight * largest)
        return jnp.where(has_prior, shared, jnp.sqrt(diagonal))

    def equations(self, exist: jax.Array) -> NormalEquations:
        """Return the normal equations, infinite where they do not `exist`."""
        gram = self.rows.T @ self.rows
        corner, side = self.corner[None, None], self.side[None]
        gram += jnp.block([[corner, side], [side.T, jnp.diag(self.weight)]])
        return NormalEquations(jnp.where(exist, gram, jnp.inf), self.squares)

    def scaled(self, D: jax.Array, free: jax.Array) -> "ScaledRows":
        """Return J D^-1 for the values that are `free`; zero for the others."""
        J = jnp.where(free, self.rows[:, 1:] / D, 0.0)
        return ScaledRows(J, jnp.where(free, self.weight / D**2, 0.0), free)


class ScaledRows(NamedTuple):
    """The Jacobian and the priors in scaled variables."""

    J: Any  # [M, p]
    weight: Any  # [p]
    free: Any  # [p], boolean

    def solve(self, damping: Any, right: jax.Array) -> jax.Array:
        """Solve the damped equations for a step."""
        M, p = self.J.shape
        B = jnp.where(self.free, self.weight + damping, 1.0)
        if p <= M:
            return _solve(self.J.T @ self.J + jnp.diag(B), right)
        # Values without a prior have a B of nothing but the damping.
        B = jnp.maximum(B, _LEAST_IN_DUAL)
        J_over_B = self.J / B
        inner = _solve(jnp.eye(M) + J_over_B @ self.J.T, J_over_B @ right)
        return right / B - J_over_B.T @ inner

    def curvature(self, step: jax.Array) -> jax.Array:
        """Return step^T (J^T J + A) step."""
        return jnp.sum((self.J @ step) ** 2) + jnp.sum(self.weight * step**2)


def row_equations(
    model: Any, theta: jax.Array, points: Points, steps: Any, memory: Any
) -> tuple[StoredRows, Any]:
    """Compute the rows of a `LeastSquaresModel`; arguments as in `normal_equations`."""
    study, (count, k) = model.experiments, points.values.shape
    if study is None:
        observed = jnp.zeros((count, k, 1 + theta.shape[0]))
        marching = model.sensitivity(theta, steps, points.times[-1])
        observed, memory = marching.visit(points, (0, count), memory, write, observed)
    else:

        def march(e, carry):
            observed, memory = carry
            local, end = study.local(e, theta), read(study.ends, e)
            marching = model.part(e).sensitivity(local, pick(steps, e), end)
            rows = read(study.rows, e)
            return marching.visit(points, rows, memory, write, observed)

        observed = jnp.zeros((count, k, 1 + study.known.shape[1]))
        carry = lax.fori_loop(0, study.count, march, (observed, memory))
        count = jnp.arange(count)
        e = jnp.sum(count[:, None] >= study.rows[1:, 0], axis=1)
        observed, memory = jax.vmap(study.joint_of)(e, carry[0]), carry[1]
    squares, rows = _weighted(model.is_robust, points, observed)
    return stored_rows(rows, squares, model.priors, theta), memory


def stored_rows(
    rows: jax.Array, squares: jax.Array, priors: Priors | None, theta: jax.Array
) -> StoredRows:
    """Add the priors to the rows [r J] of all residuals."""
    none = jnp.zeros(theta.shape[0])
    added = jnp.zeros(()), none, none
    if priors is not None:
        added = prior_terms(priors, theta)
    return StoredRows(rows, *added, squares)


def _weighted(
    is_robust: bool, points: Points, observed: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the squared residuals of each quantity and the weighted rows [r J]."""
    weight = jnp.asarray(points.weights).ravel()
    values = jnp.asarray(points.values).ravel()
    observed = observed.reshape(-1, observed.shape[-1])
    square, rows = residual_rows(is_robust, weight, values, observed)
    squares = jnp.sum(square.reshape(points.values.shape), axis=0)
    return squares, jnp.where(weight[:, None] > 0, jnp.sqrt(weight)[:, None] * rows, 0)


def residual_rows(
    is_robust: bool, weight: jax.Array, values: Any, observed: jax.Array
) -> tuple[jax.Array, jax.Array]:
    r"""Return the squares of residuals, and their rows [r J], from what is observed.

    In the robust fits that explore for Student's noise the squares of the rows are
    Huber's loss: beyond k standard deviations the residual r is replaced by the root of
    that loss, $\sqrt{k(2|r| - k)}$, and the Jacobian by the derivatives of the root.
    """
    residual = observed[:, 0] - values
    square = jnp.where(weight > 0, residual**2, 0.0)
    rows = jnp.concatenate([residual[:, None], observed[:, 1:]], axis=1)
    if not is_robust:
        return square, rows
    size = jnp.sqrt(weight) * jnp.abs(residual)
    is_outlier = size > _OUTLYING
    safe = jnp.where(is_outlier, size, _OUTLYING)
    root = jnp.sqrt(_OUTLYING * (2 * safe - _OUTLYING))
    first = jnp.where(is_outlier, root / safe, 1.0)
    others = jnp.where(is_outlier, _OUTLYING / root, 1.0)
    is_first = jnp.arange(rows.shape[1]) == 0
    return square, rows * jnp.where(is_first, first[:, None], others[:, None])


def _solve(matrix: jax.Array, right: jax.Array) -> jax.Array:
    return cho_solve(cho_factor(matrix, lower=True), right)


# With more free values than this the Jacobian is stored.
_MANY_VALUES = 40
# Convergence of the weights of networks, whose single values mean nothing: along curved
# valleys S becomes lower by ever less.
FOR_NETWORKS = Convergence(reduction=1e-6, hidden=1e-5, slow=2e-5)


@final
class LeastSquaresModel(eqx.Module):
    """The part of a least-squares problem that all its fits share.

    `free` maps the free values to the problem's parameters; its own bounds are
    infinite, and those of a start are in its `Box`. `learned` and `fixed` are the
    problem's parameters with and without free values. `dimension` is the number of
    states. If a model `is_robust`, large residuals count linearly: see `residual_rows`.

    A model is solved by its `engine`. If its noise has models, a `likelihood` takes the
    place of the sum of squares.

    The model of a study has `experiments`. Its `free` are then the joint values, and
    `part` is the model of one experiment."""

    free: FreeParameters = eqx.field(static=True)
    learned: Problem
    fixed: Problem
    priors: Priors | None
    dimension: int = eqx.field(static=True)
    engine: AbstractEngine
    guide: Guide | None = None
    likelihood: Likelihood | None = None
    experiments: Experiments | None = None
    is_robust: bool = eqx.field(static=True, default=False)

    def part(self, e: Any) -> "LeastSquaresModel":
        """Return the model of experiment `e` of a study.

        The arrays of `guide` and `likelihood` have a first axis over the experiments;
        priors are for joint values."""
        study = self.experiments
        assert study is not None
        return replace(
            self,
            free=study.free,
            learned=pick(study.learned, e),
            fixed=pick(study.fixed, e),
            priors=None,
            engine=self.engine.part(e),
            guide=pick(self.guide, e),
            likelihood=pick(self.likelihood, e),
            experiments=None,
        )

    def for_each_part(self, function: Callable[..., Any], theta: jax.Array, *trees):
        """Stack `function(part, end, local values, *trees)` of all experiments."""
        study = self.experiments
        assert study is not None

        def one(e):
            parts = (pick(tree, e) for tree in trees)
            end = read(study.ends, e)
            return function(self.part(e), end, study.local(e, theta), *parts)

        return lax.map(one, jnp.arange(study.count))

    @property
    def stores_rows(self) -> bool:
        """Whether there are so many free values that the Jacobian is stored."""
        return self.likelihood is None and len(self.free.names) > _MANY_VALUES

    @property
    def problem(self) -> Problem:
        """The problem, whose free values are not filled in."""
        return eqx.combine(self.learned, self.fixed)

    def problem_at(self, theta: jax.Array) -> Problem:
        """Return the problem with the free values `theta`, in a compiled program."""
        return eqx.combine(self.free.join_values(theta, self.learned), self.fixed)

    @property
    def observes(self) -> bool:
        """Whether the data are a function of the state, and not the state itself."""
        return self.fixed.observe is not None or self.learned.observe is not None

    def steps(self, theta: jax.Array, n: Any, T: Any, capacity: int) -> Any:
        """Return the steps of a march up to the time T with the number `n`. Those of a
        study are stacked, each up to its own end."""
        if self.experiments is not None:
            return self.for_each_part(
                lambda part, end, local: part.steps(local, n, end, capacity), theta
            )
        return self.engine.steps(lambda: self._plain(theta), n, T, capacity)

    def at_least(self, steps: Any, rate: Any, theta: jax.Array, capacity: int) -> Any:
        """Return the steps, of which there are at least `rate` per unit of time."""
        if self.experiments is not None:
            return self.for_each_part(
                lambda part, _, local, given: part.at_least(
                    given, rate, local, capacity
                ),
                theta,
                steps,
            )
        return self.engine.at_least(steps, rate, lambda: self._plain(theta), capacity)

    def _plain(self, theta: jax.Array) -> Problem:
        return without_doses(self.problem_at(theta))

    def sensitivity(self, theta: jax.Array, steps: Any, T: Any) -> AbstractSensitivity:
        """Return the model at the free values `theta`, ready to be solved together with
        its derivatives up to the time T; `steps` as above."""
        fixed = self.fixed
        if self.guide is not None:
            fixed = _with_rhs(fixed, GuidedRhs(fixed.rhs, fixed.observe, self.guide))
        dimension = self.dimension + hidden_count(self.fixed)

        def system(grid: Any) -> System:
            return System(without_doses(fixed), self.engine, grid, T, dimension)

        def join(theta: jax.Array) -> Problem:
            params = self.free.join_values(theta, self.learned)
            if self.guide is not None:
                guided = GuidedRhs(params.rhs, params.observe, None)
                params = _with_rhs(params, guided)
            return without_doses(params)

        return self.engine.sensitivity(system, join, theta, steps, self.direct)

    def marching(self, theta: jax.Array, steps: Any, T: Any) -> AbstractSensitivity:
        """Return the same without derivatives for the parameters of the noise."""
        sensitivity = self.sensitivity(theta, steps, T)
        if self.likelihood is None:
            return sensitivity
        return self.likelihood.without_derivatives(sensitivity, theta)

    def convergence(self, steps: Any) -> Convergence:
        """Return what counts as convergence of a fit with these steps."""
        if self.stores_rows and self.priors is not None:
            return FOR_NETWORKS
        return Convergence(*self.engine.smoothness(steps))

    @property
    def direct(self) -> tuple[int, ...]:
        """The free values on which something other than the delays and what is
        observed depends."""
        if callable(self.fixed.initial):
            # The state at time zero may depend on every part of the problem.
            likelihood = self.likelihood
            others = len(self.free.names) if likelihood is None else likelihood.others
            return tuple(range(others))
        indirect = ("tau", "observe", "noise")
        sources = {
            source
            for array in self.free.arrays
            for source in self.free.source[array.first : array.first + array.size]
            if not array.name.startswith(indirect) and source >= 0
        }
        return tuple(sorted(sources))


def _with_rhs(problem: Problem, rhs: Any) -> Problem:
    """Replace the right-hand side of a problem, or of a part of it."""
    return eqx.tree_at(lambda p: p.rhs, problem, rhs, is_leaf=lambda v: v is None)


def normal_equations(
    model: LeastSquaresModel, theta: jax.Array, points: Points, steps: Any, memory: Any
) -> tuple[NormalEquations, Any]:
    """Compute the normal equations at `theta`, with the `steps` of the model.

    `memory` is the solver's work buffer; it is returned for the next evaluation."""
    study = model.experiments
    if study is None:
        rows, end = (0, points.times.shape[0]), points.times[-1]
        total, memory = _of_experiment(model, theta, points, rows, end, steps, memory)
    else:

        def add(e, carry):
            total, memory = carry
            rows, end = read(study.rows, e), read(study.ends, e)
            local, local_steps = study.local(e, theta), pick(steps, e)
            found, memory = _of_experiment(
                model.part(e), local, points, rows, end, local_steps, memory
            )
            gram = total.gram + study.joint(e, found.gram)
            return NormalEquations(gram, total.squares + found.squares), memory

        zero = _no_equations(theta, points)
        total, memory = lax.fori_loop(0, study.count, add, (zero, memory))
    if model.priors is not None:
        total = total._replace(gram=total.gram + prior_gram(model.priors, theta))
    return total, memory


def _no_equations(theta: jax.Array, points: Points) -> NormalEquations:
    size = 1 + theta.shape[0]
    return NormalEquations(
        jnp.zeros((size, size)), jnp.zeros(jnp.shape(points.values)[1:])
    )


def _of_experiment(
    model: LeastSquaresModel,
    theta: jax.Array,
    points: Any,
    rows: Any,
    end: Any,
    steps: Any,
    memory: Any,
) -> tuple[NormalEquations, Any]:
    """Compute the normal equations of one experiment, whose points have the numbers
    `rows[0]` to `rows[1]` - 1 and which ends at the time `end`, without priors."""
    if model.likelihood is not None:
        return likelihood_equations(model, theta, points, rows, end, steps, memory)
    sensitivity = model.sensitivity(theta, steps, end)

    def add(total: NormalEquations, j, observed):
        weight = read(points.weights, j)
        values = read(points.values, j)
        square, rows = residual_rows(model.is_robust, weight, values, observed)
        products = rows[:, :, None] * rows[:, None, :]
        gram = total.gram + jnp.sum(weight[:, None, None] * products, axis=0)
        return NormalEquations(gram, total.squares + square)

    return sensitivity.visit(points, rows, memory, add, _no_equations(theta, points))


def work_buffer(
    model: LeastSquaresModel, theta: jax.Array, steps: Any, capacity: int
) -> Any:
    """Return memory of the solver for the first evaluation, with `capacity` rows."""
    if model.experiments is not None:
        # All experiments use the same memory, one after the other.
        local = model.experiments.local(0, theta)
        return work_buffer(model.part(0), local, pick(steps, 0), capacity)
    return model.marching(theta, steps, 0.0).memory(capacity)
