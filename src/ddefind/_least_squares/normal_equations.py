r"""The least-squares problem of a delay equation, and its normal equations.

The sum of squares compares the model $\hat x$ with the measured values $x_{ji}$ of
quantity i at time $t_j$:

$$S(\theta) = \sum_{j,i} w_{ji}\,\bigl(\hat x_i(t_j; \theta) - x_{ji}\bigr)^2
  + \text{priors}, \qquad w_{ji} = 1 / \mathrm{sd}_{ji}^2.$$

`LeastSquaresModel` holds what all fits of one problem share. `normal_equations`
evaluates S and its linearisation. In a study S is the sum over its experiments: see
`experiments.py`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from .._adaptive.methods import AbstractAdaptive
from .._loss.path_costs import Points
from .._problem.free_parameters import FreeParameters
from .._problem.problem import Problem
from .._problem.without_doses import hidden_count, without_doses
from .._solve.breaking_points import BreakingPoints
from .._solve.grid import Grid
from .._solve.mesh import Mesh, make_mesh
from .._solve.mesh_path import movers_of
from .._solve.runge_kutta import AbstractSolver
from .._solve.system import System
from .._solve.time_grid import known_constants
from .._util.buffers import read
from .adaptive_sensitivity import AdaptiveSensitivity, AdaptiveSteps, adaptive_steps
from .experiments import Experiments, pick
from .guide import Guide, GuidedRhs
from .levenberg_marquardt import Convergence, NormalEquations
from .likelihood import Likelihood, likelihood_equations
from .mesh_sensitivity import MeshSensitivity
from .prior_equations import Priors, prior_gram
from .sensitivity import AbstractSensitivity, Extended
from .stored_rows import residual_rows

# With more free values than this the Jacobian is stored: see `stored_rows.py`.
_MANY_VALUES = 40
# Convergence of the weights of networks, whose single values mean nothing: along curved
# valleys S becomes lower by ever less.
_FOR_NETWORKS = Convergence(reduction=1e-6, hidden=1e-5, slow=2e-5)


@final
class LeastSquaresModel(eqx.Module):
    """The part of a least-squares problem that all its fits share.

    `free` maps the free values to the problem's parameters; its own bounds are
    infinite, and those of a start are in its `Box`. `learned` and `fixed` are the
    problem's parameters with and without free values. `dimension` is the number of
    states. If a model `is_robust`, large residuals count linearly: see `residual_rows`.

    A model is solved on a grid that is aligned with its one delay, or on a mesh, which
    `mesh` then describes, or with adaptive steps if its solver has them. If its noise
    has models, a `likelihood` takes the place of the sum of squares.

    The model of a study has `experiments`. Its `free` are then the joint values, and
    `part` is the model of one experiment."""

    free: FreeParameters = eqx.field(static=True)
    learned: Problem
    fixed: Problem
    solver: AbstractSolver | AbstractAdaptive
    priors: Priors | None
    dimension: int = eqx.field(static=True)
    mesh: "MeshPlan | None" = None
    guide: Guide | None = None
    likelihood: Likelihood | None = None
    experiments: Experiments | None = None
    is_robust: bool = eqx.field(static=True, default=False)

    def part(self, e: Any) -> "LeastSquaresModel":
        """The model of experiment `e` of a study. The record of `mesh` and the arrays
        of `guide` and `likelihood` have a first axis over the experiments; priors are
        for joint values."""
        study = self.experiments
        assert study is not None
        return replace(
            self,
            free=study.free,
            learned=pick(study.learned, e),
            fixed=pick(study.fixed, e),
            priors=None,
            mesh=pick(self.mesh, e),
            guide=pick(self.guide, e),
            likelihood=pick(self.likelihood, e),
            experiments=None,
        )

    def for_each_part(self, function: Callable[..., Any], theta: jax.Array, *trees):
        """`function(part, end, local values, *trees)` for each experiment, stacked; the
        `trees` are stacked, too."""
        study = self.experiments
        assert study is not None

        def one(e):
            own = (pick(tree, e) for tree in trees)
            end = read(study.ends, e)
            return function(self.part(e), end, study.local(e, theta), *own)

        return lax.map(one, jnp.arange(study.count))

    @property
    def stores_rows(self) -> bool:
        """Whether there are so many free values that the Jacobian is stored."""
        return self.likelihood is None and len(self.free.names) > _MANY_VALUES

    @property
    def observes(self) -> bool:
        """Whether the data are a function of the state, and not the state itself."""
        return self.fixed.observe is not None or self.learned.observe is not None

    @property
    def is_adaptive(self) -> bool:
        """Whether the solver chooses its steps."""
        return isinstance(self.solver, AbstractAdaptive)

    def steps(self, theta: jax.Array, n: Any, T: Any, capacity: int) -> Any:
        """The steps of a march up to the time T: n in a delay or, on a mesh, the mesh
        with n steps in the record that belongs to the delays of `theta`. Adaptive steps
        are finer with a larger n. Those of a study are stacked, each up to its own
        end."""
        if self.experiments is not None:
            return self.for_each_part(
                lambda part, end, local: part.steps(local, n, end, capacity), theta
            )
        if self.is_adaptive:
            return adaptive_steps(n, capacity)
        if self.mesh is None:
            return n
        problem = eqx.combine(self.free.join_values(theta, self.learned), self.fixed)
        problem = without_doses(problem)
        step = self.mesh.record / n
        points = self.mesh.points
        constants = known_constants(problem, points, jnp)
        return make_mesh(
            points,
            movers_of(problem),
            T,
            step,
            capacity,
            self.mesh.overlaps,
            constants,
        )

    def sensitivity(self, theta: jax.Array, steps: Any, T: Any) -> AbstractSensitivity:
        """The model at the free values `theta`, ready to be solved together with its
        derivatives up to the time T; `steps` as above."""
        has_jump = self.learned.initial is not None or self.fixed.initial is not None
        is_mesh, is_adaptive = isinstance(steps, Mesh), self.is_adaptive
        grid = steps if is_mesh or is_adaptive else Grid(steps, has_jump, 0)
        fixed = self.fixed
        if self.guide is not None:
            fixed = _with_rhs(fixed, GuidedRhs(fixed.rhs, fixed.observe, self.guide))
        dimension = self.dimension + hidden_count(self.fixed)
        system = System(without_doses(fixed), self.solver, grid, T, dimension)

        def join(theta: jax.Array) -> Problem:
            params = self.free.join_values(theta, self.learned)
            if self.guide is not None:
                guided = GuidedRhs(params.rhs, params.observe, None)
                params = _with_rhs(params, guided)
            return without_doses(params)

        if is_adaptive:
            return AdaptiveSensitivity(system, join, theta)
        if is_mesh:
            return MeshSensitivity(system, join, theta, steps, self.direct)
        return Extended(system, join, theta)

    def marching(self, theta: jax.Array, steps: Any, T: Any) -> AbstractSensitivity:
        """The same without derivatives for the parameters of the noise, on which no
        trajectory depends."""
        sensitivity = self.sensitivity(theta, steps, T)
        if self.likelihood is None:
            return sensitivity
        return self.likelihood.without_derivatives(sensitivity, theta)

    def convergence(self, steps: Any) -> Convergence:
        """What counts as convergence of a fit with these steps. Adaptive steps change
        from one evaluation to the next, so that S is only as smooth as its tolerance
        is small."""
        if self.stores_rows and self.priors is not None:
            return _FOR_NETWORKS
        if not isinstance(steps, AdaptiveSteps):
            return Convergence()
        # The experiments of a study have the same tolerance.
        rtol = jnp.max(steps.rtol(self.solver))
        return Convergence(rtol, 1000 * rtol)

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


@final
class MeshPlan(eqx.Module):
    """How a model is solved on a mesh: its breaking points, the length of the record,
    and whether a delay may become shorter than a step."""

    points: BreakingPoints = eqx.field(static=True)
    record: Any
    overlaps: bool = eqx.field(static=True)


def _with_rhs(problem: Problem, rhs: Any) -> Problem:
    """The problem, or a part of it, with another right-hand side."""
    return eqx.tree_at(lambda p: p.rhs, problem, rhs, is_leaf=lambda v: v is None)


def normal_equations(
    model: LeastSquaresModel, theta: jax.Array, points: Points, steps: Any, memory: Any
) -> tuple[NormalEquations, Any]:
    """The normal equations at the free values `theta`, with the `steps` of the model.

    `memory` is the work buffer of the solver; it is returned for the next evaluation.
    """
    study = model.experiments
    if study is None:
        rows, end = (0, points.times.shape[0]), points.times[-1]
        total, memory = _of_experiment(model, theta, points, rows, end, steps, memory)
    else:

        def add(e, carry):
            total, memory = carry
            rows, end = read(study.rows, e), read(study.ends, e)
            local, own = study.local(e, theta), pick(steps, e)
            found, memory = _of_experiment(
                model.part(e), local, points, rows, end, own, memory
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
    """The normal equations of one experiment, whose points have the numbers from
    `rows[0]` to `rows[1]` - 1 and which ends at the time `end`, without priors."""
    summed = _sum_of_squares if model.likelihood is None else likelihood_equations
    return summed(model, theta, points, rows, end, steps, memory)


def _sum_of_squares(
    model: LeastSquaresModel,
    theta: jax.Array,
    points: Points,
    rows: Any,
    end: Any,
    steps: Any,
    memory: Any,
) -> tuple[NormalEquations, Any]:
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
    """Memory of the solver for the first evaluation, with so many rows."""
    if model.experiments is not None:
        # All experiments use the same memory, one after the other.
        local = model.experiments.local(0, theta)
        return work_buffer(model.part(0), local, pick(steps, 0), capacity)
    return model.marching(theta, steps, 0.0).memory(capacity)
