r"""The least-squares problem of a delay equation, and its normal equations.

The sum of squares compares the model $\hat x$ with the measured values $x_{ji}$ of
quantity i at time $t_j$:

$$S(\theta) = \sum_{j,i} w_{ji}\,\bigl(\hat x_i(t_j; \theta) - x_{ji}\bigr)^2
  + \text{priors}, \qquad w_{ji} = 1 / \mathrm{sd}_{ji}^2.$$

`LeastSquaresModel` holds what all fits of one problem share; its misfit says what S is.
`normal_equations` evaluates S and its linearisation: the sum over the experiments of a
study, of which a single data set is one."""

import abc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._engine.engine import AbstractEngine, AbstractSensitivity, Points, System
from .._problem.free_parameters import FreeParameters
from .._problem.problem import Problem, with_noise
from .._problem.without_doses import hidden_count, without_doses
from .._util.arrays import read, write
from .guide import Guide, GuidedRhs
from .levenberg_marquardt import Convergence, NormalEquations, Priors, prior_gram
from .misfit import AbstractMisfit


class AbstractExperiments(eqx.Module):
    """The experiments of a fit, over which its normal equations are added up.

    A `tree` is `joined`, and each part gets its own branch. The `place` of an
    experiment in the data are its first row and the first one after it, and its last
    time; that of a single one is the `whole`."""

    @abc.abstractmethod
    def part(self, model: "LeastSquaresModel", e: Any) -> "LeastSquaresModel":
        """Return the model of experiment `e`."""

    @abc.abstractmethod
    def joined(self, trees: Sequence[Any], axis: int) -> Any:
        """Stack the trees of all experiments along an axis of their arrays."""

    @abc.abstractmethod
    def with_fixed(self, function: Callable[[Problem], Problem]) -> Any:
        """Change the fixed parameters of experiments that have their own."""

    @abc.abstractmethod
    def without_noise(self, p: int) -> Any:
        """Return the experiments without the parameters of the noise, of which the
        first `p` joint values are none."""

    @abc.abstractmethod
    def first(self, model: "LeastSquaresModel", theta: jax.Array, tree: Any) -> Any:
        """Return the model, the free values and the tree of the first experiment."""

    @abc.abstractmethod
    def each(self, model, theta, end, function, *trees) -> Any:
        """Stack `function(part, local values, end, *trees)` of all experiments; a
        single one ends at the time `end`."""

    @abc.abstractmethod
    def sum(self, model, theta, whole, quantities, function, tree, memory) -> Any:
        """Add up the normal equations `function(part, local values, place, tree,
        memory)`, of as many `quantities`; return also the last memory."""

    @abc.abstractmethod
    def observed(self, model, theta, points, steps, memory) -> Any:
        """Compute what is observed at the points, with derivatives, [N, k, 1 + p];
        return also the last memory."""

    @abc.abstractmethod
    def stacked(self, model, theta, function, tree) -> jax.Array:
        """Stack the rows [..., 1 + p] of `function(part, local values, tree)`."""


@final
class OneExperiment(AbstractExperiments):
    """A single data set, whose part is the model itself."""

    def part(self, model, e):
        return model

    def joined(self, trees, axis):
        return trees[0]

    def with_fixed(self, function):
        return self

    def without_noise(self, p):
        return self

    def first(self, model, theta, tree):
        return model, theta, tree

    def each(self, model, theta, end, function, *trees):
        return function(model, theta, end, *trees)

    def sum(self, model, theta, whole, quantities, function, tree, memory):
        return function(model, theta, whole, tree, memory)

    def observed(self, model, theta, points, steps, memory):
        table = jnp.zeros((*points.values.shape, 1 + theta.shape[0]))
        return _fill(model, theta, whole_of(points), points, steps, memory, table)

    def stacked(self, model, theta, function, tree):
        return function(model, theta, tree)


def _fill(
    part: "LeastSquaresModel",
    theta: jax.Array,
    place: Any,
    points: Points,
    steps: Any,
    memory: Any,
    table: jax.Array,
) -> tuple[jax.Array, Any]:
    """Write what is observed in one experiment into the rows of a table."""
    rows, end = place
    sensitivity = part.sensitivity(theta, steps, end)
    return sensitivity.visit(points, rows, memory, write, table)


@final
class Experiments(AbstractExperiments):
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

    The record of the model's `mesh` and the arrays of its `guide` and its misfit have
    a first axis over the experiments, too."""

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

    def part(self, model, e):
        # Priors are for joint values.
        return replace(
            model,
            free=self.free,
            learned=pick(self.learned, e),
            fixed=pick(self.fixed, e),
            priors=None,
            engine=model.engine.part(e),
            guide=pick(model.guide, e),
            misfit=pick(model.misfit, e),
            experiments=OneExperiment(),
        )

    def joined(self, trees, axis):
        return jax.tree.map(lambda *arrays: np.stack(arrays, axis), *trees)

    def with_fixed(self, function):
        return replace(self, fixed=function(self.fixed))

    def without_noise(self, p):
        free = self.free.without_noise()
        q = len(free.names)
        return replace(
            self,
            free=free,
            learned=with_noise(self.learned, None),
            fixed=with_noise(self.fixed, None),
            selection=self.selection[:, :q, :p],
            known=self.known[:, :q],
        )

    def first(self, model, theta, tree):
        return self.part(model, 0), self._local(0, theta), pick(tree, 0)

    def each(self, model, theta, end, function, *trees):
        def one(e):
            branches = (pick(tree, e) for tree in trees)
            local, end = self._local(e, theta), read(self.ends, e)
            return function(self.part(model, e), local, end, *branches)

        return lax.map(one, jnp.arange(self.count))

    def sum(self, model, theta, whole, quantities, function, tree, memory):
        def add(e, carry):
            total, memory = carry
            found, memory = function(
                *self._part(model, e, theta), pick(tree, e), memory
            )
            gram = total.gram + self._joint(e, found.gram)
            return NormalEquations(gram, total.squares + found.squares), memory

        zero = no_equations(1 + theta.shape[0], quantities)
        return lax.fori_loop(0, self.count, add, (zero, memory))

    def observed(self, model, theta, points, steps, memory):
        def fill(e, carry):
            table, memory = carry
            part, local, place = self._part(model, e, theta)
            return _fill(part, local, place, points, pick(steps, e), memory, table)

        count = points.values.shape[0]
        table = jnp.zeros((*points.values.shape, 1 + self.known.shape[1]))
        table, memory = lax.fori_loop(0, self.count, fill, (table, memory))
        row = jnp.arange(count)
        e = jnp.sum(row[:, None] >= self.rows[1:, 0], axis=1)
        return jax.vmap(self._joint_of)(e, table), memory

    def stacked(self, model, theta, function, tree):
        rows = self.each(
            model,
            theta,
            None,
            lambda part, local, _, branch: function(part, local, branch),
            tree,
        )
        rows = jax.vmap(self._joint_of)(jnp.arange(self.count), rows)
        return rows.reshape(-1, rows.shape[-1])

    def _part(self, model: "LeastSquaresModel", e: Any, theta: jax.Array) -> Any:
        """Return the model, the free values and the place of experiment `e`."""
        place = read(self.rows, e), read(self.ends, e)
        return self.part(model, e), self._local(e, theta), place

    def _local(self, e: Any, theta: jax.Array) -> jax.Array:
        """Return the free values of experiment `e`."""
        picked = jnp.sum(read(self.selection, e) * theta, axis=1)
        return picked + read(self.known, e)

    def _joint(self, e: Any, gram: jax.Array) -> jax.Array:
        """Convert normal equations of experiment `e` to the joint values. Products are
        written as sums, which XLA compiles into loops."""
        P = read(self.selection, e)
        P = jnp.pad(P, ((1, 0), (1, 0))).at[0, 0].set(1.0)
        half = jnp.sum(gram[:, :, None] * P[None], axis=1)
        return jnp.sum(P[:, :, None] * half[:, None, :], axis=0)

    def _joint_of(self, e: Any, rows: jax.Array) -> jax.Array:
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


@final
class LeastSquaresModel(eqx.Module):
    """The part of a least-squares problem that all its fits share.

    `free` maps the free values to the problem's parameters; its own bounds are
    infinite, and those of a start are in its `Box`. `learned` and `fixed` are the
    problem's parameters with and without free values. `dimension` is the number of
    states. The `misfit` is what a fit makes small, summed over the `experiments`; in a
    study `free` are the joint values.

    A model is solved by its `engine`."""

    free: FreeParameters = eqx.field(static=True)
    learned: Problem
    fixed: Problem
    priors: Priors | None
    dimension: int = eqx.field(static=True)
    misfit: AbstractMisfit
    engine: AbstractEngine
    guide: Guide | None = None
    experiments: AbstractExperiments = OneExperiment()

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

        def of_part(part: "LeastSquaresModel", local: jax.Array, end: Any) -> Any:
            return part.engine.steps(lambda: part._plain(local), n, end, capacity)

        return self.experiments.each(self, theta, T, of_part)

    def at_least(self, steps: Any, rate: Any, theta: jax.Array, capacity: int) -> Any:
        """Return the steps, of which there are at least `rate` per unit of time."""

        def of_part(part: "LeastSquaresModel", local: jax.Array, _: Any, given: Any):
            plain = part._plain
            return part.engine.at_least(given, rate, lambda: plain(local), capacity)

        return self.experiments.each(self, theta, None, of_part, steps)

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
        return self.misfit.without_noise(self.sensitivity(theta, steps, T), theta)

    def convergence(self, steps: Any) -> Convergence:
        """Return what counts as convergence of a fit with these steps."""
        by_steps = Convergence(*self.engine.smoothness(steps))
        return self.misfit.convergence(self.priors, by_steps)

    @property
    def direct(self) -> tuple[int, ...]:
        """The free values on which something other than the delays and what is
        observed depends."""
        if callable(self.fixed.initial):
            # The state at time zero may depend on every part of the problem.
            return tuple(range(len(self.free.names) - self.free.noise_count))
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

    def of_part(part, local, place, steps, memory):
        return part.misfit.equations(part, local, points, place, steps, memory)

    whole, quantities = whole_of(points), jnp.shape(points.values)[1]
    total, memory = model.experiments.sum(
        model, theta, whole, quantities, of_part, steps, memory
    )
    if model.priors is not None:
        total = total._replace(gram=total.gram + prior_gram(model.priors, theta))
    return total, memory


def whole_of(points: Points) -> tuple[tuple[int, int], Any]:
    """Return the place of a single experiment."""
    return (0, points.times.shape[0]), points.times[-1]


def no_equations(size: int, quantities: int) -> NormalEquations:
    """Return normal equations of zeros with `size` rows."""
    return NormalEquations(jnp.zeros((size, size)), jnp.zeros(quantities))


def work_buffer(
    model: LeastSquaresModel, theta: jax.Array, steps: Any, capacity: int
) -> Any:
    """Return memory of the solver for the first evaluation, with `capacity` rows. All
    experiments use the same memory, one after the other."""
    first, local, steps = model.experiments.first(model, theta, steps)
    return first.marching(local, steps, 0.0).memory(capacity)
