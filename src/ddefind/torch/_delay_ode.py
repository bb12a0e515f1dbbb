"""`DelayODE`, a delay equation as a layer of a PyTorch program.

The layer converts its modules to JAX. Two autograd functions, `_Solve` and
`_SolveGradient`, connect torch with the compiled code, and pass arrays as numpy arrays.

A batch of B histories is solved as one equation with d * B components, in the order
(d, B). The gradient of the weights, which all trajectories share, is then computed once
and not B times. One delay is solved on the grid that is aligned with it, several on a
mesh."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_leaves_with_path

import ddefind as dd

from .._engine.aligned.engine import AlignedEngine
from .._engine.aligned.march import make_buffers, make_path, solve_path
from .._engine.aligned.path import DenseOutput, Grid, make_grid
from .._engine.aligned.reverse import reverse_march
from .._engine.engine import Points, System
from .._engine.mesh.engine import solve_mesh
from .._engine.mesh.mesh import Mesh, breaking_points, mesh_for
from .._engine.solution import check_steps, check_time
from .._loss.path_costs import PointCosts
from .._util.errors import check_instance
from ._check_module import (
    check_not_training,
    double_copy,
    find_history_inputs,
    find_rhs_inputs,
    forward_name,
    required_arguments,
    torch,
    training_dependent_layers,
)
from ._convert import ConvertedProgram, convert, tensors_of

_MAX_STEPS = 1 << 22
# The shortest record on a mesh, if the only time is zero.
_SHORTEST = 1e-6


@final
class DelayODE(torch.nn.Module):
    r"""A layer that solves a delay differential equation.

    The equation is $x'(t) = F(x(t), x(t-\tau), \tau, t)$ for $t > 0$, with the history
    $x(t) = X_0(t)$ for $t \le 0$. `model(times)` is the trajectory, of shape
    (len(times), d).

    **Arguments**

    - `rhs`: $F$, a module with `forward(x, y, tau, t)` (see `dd.from_torch`).
    - `history`: $X_0$, a module with `forward(t)`. A module with further arguments
      describes a batch of histories: `forward(t, u)` is the history of one trajectory.
      Then `model(times, u)`, where the first axis of u is the batch, has the shape
      (batch, len(times), d).
    - `tau`: the delay, a positive number or an `nn.Parameter`; or several delays, a
      tuple or a dict of them. `rhs` then gets y and tau in the same structure: with
      `tau={"growth": 2.0, "rest": 5.0}`, `y["rest"]` is $x(t - 5)$, and the layer has
      the parameter `tau.rest`.
    - `solver`, `steps_per_delay`, `max_step`: as in `dd.solve`.

    The parameters of the layer are those of `rhs` and `history`, and `tau`. Autograd
    can differentiate the trajectory with respect to all of them, to u and to `times`.
    Second derivatives are not available. Everything is computed in float64 on the CPU,
    and the result has the type and the device of `times`.

    >>> import torch
    >>> class Decay(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.rate = torch.nn.Parameter(torch.tensor(1.0))
    ...     def forward(self, x, y, tau, t):
    ...         return -self.rate * y
    >>> class ConstantHistory(torch.nn.Module):
    ...     def forward(self, t, u):
    ...         return u
    >>> model = DelayODE(Decay(), ConstantHistory(), tau=1.0)
    >>> model(torch.tensor([0.0, 1.5]), torch.tensor([[1.0], [2.0]])).squeeze()
    tensor([[ 1.0000, -0.3750],
            [ 2.0000, -0.7500]], grad_fn=<SqueezeBackward0>)
    """

    def __init__(
        self,
        rhs: torch.nn.Module,
        history: torch.nn.Module,
        tau: Any,
        *,
        solver: dd.AbstractSolver = dd.RK4(),
        steps_per_delay: int = 20,
        max_step: float | None = None,
    ):
        super().__init__()
        check_instance("solver", solver, dd.AbstractSolver, "RK4()")
        # The tuple keeps torch from registering the copies as parts of this module.
        self._copies = double_copy("rhs", rhs), double_copy("history", history)
        _check_arguments(rhs, history)
        self.rhs, self.history = rhs, history
        self.tau = _as_parameters(tau)
        self.solver, self.steps_per_delay = solver, check_steps(steps_per_delay)
        self.max_step = None if max_step is None else check_time(max_step, "max_step")
        self._training_dependent = [
            ("rhs", training_dependent_layers(rhs)),
            ("history", training_dependent_layers(history)),
        ]
        self._programs: dict[tuple, tuple[ConvertedProgram, ConvertedProgram]] = {}
        self._history_arguments = required_arguments(history)[1:]
        if not self._history_arguments:
            self._convert(())

    def _convert(self, shapes: tuple) -> tuple[ConvertedProgram, ConvertedProgram]:
        """Convert the right-hand side and the history, once for the `shapes` of the
        history's arguments after the time, without the batch axis."""
        if shapes not in self._programs:
            rhs, history = self._copies
            history_example = find_history_inputs(history, shapes)
            delays = _delays(self.tau)
            rhs_example = find_rhs_inputs(rhs, history_example.dimension, delays)
            rhs_program, *_ = convert(rhs, rhs_example)
            history_program, *_ = convert(history, history_example)
            self._programs[shapes] = rhs_program, history_program
        return self._programs[shapes]

    def forward(self, times: Any, *history_inputs: torch.Tensor) -> torch.Tensor:
        """Compute the states at `times`, not negative and in any order."""
        for argument, layers in self._training_dependent:
            check_not_training(argument, layers)
        times, inputs = _as_times(times), self._check_history_inputs(history_inputs)
        rhs, history = self._convert(tuple(tuple(u.shape[1:]) for u in inputs))
        batch = len(inputs[0]) if inputs else None
        of_rhs, of_history = tensors_of(self.rhs), tensors_of(self.history)
        tensors = Tensors(
            _delays(self.tau),
            {name: of_rhs[name] for name in rhs.tensors},
            {name: of_history[name] for name in history.tensors},
            inputs,
        )
        leaves, structure = jax.tree.flatten(tensors)
        plan = SolvePlan(rhs, history, self.solver, batch)
        options = structure, self.steps_per_delay, self.max_step
        return _Solve.apply(plan, options, times, *leaves)

    def _check_history_inputs(self, inputs: tuple) -> tuple[torch.Tensor, ...]:
        """Return the history's arguments as floating-point tensors with a batch
        axis."""
        names = self._history_arguments
        if len(names) != len(inputs):
            raise TypeError(
                f"{forward_name(self.history)} takes ({', '.join(['t', *names])}), so "
                f"call the model as `model({', '.join(['times', *names])})`; it got "
                f"{len(inputs)} arguments beside `times`."
            )
        inputs = tuple(map(torch.as_tensor, inputs))
        for name, tensor in zip(names, inputs):
            if tensor.ndim == 0 or len(tensor) != len(inputs[0]) or len(tensor) == 0:
                raise ValueError(
                    f"`{name}` must have a first axis over the batch, of the same "
                    f"length for every argument; its shape is {tuple(tensor.shape)}."
                )
            if not tensor.is_floating_point():
                raise ValueError(
                    f"`{name}` must be floating-point, not {tensor.dtype}."
                )
        return inputs


def _check_arguments(rhs: torch.nn.Module, history: torch.nn.Module) -> None:
    """Check the arguments of the two modules' `forward`."""
    names = required_arguments(rhs)
    if len(names) != 4:
        raise TypeError(
            f"{forward_name(rhs)} takes ({', '.join(names)}), but a right-hand side is "
            "`forward(x, y, tau, t)`. Name every argument, even if it is not used."
        )
    if not required_arguments(history):
        raise TypeError(
            f"{forward_name(history)} takes no argument, but a history is `forward(t)`."
        )


def _as_parameters(tau: Any) -> Any:
    """Return the delays as parameters of the layer: one of them, or torch's list or
    dict."""
    if isinstance(tau, (tuple, list, torch.nn.ParameterList)):
        delays = [_as_delay(f"tau[{i}]", delay) for i, delay in enumerate(tau)]
        parameters = torch.nn.ParameterList(delays)
    elif isinstance(tau, (dict, torch.nn.ParameterDict)):
        for key in tau:
            _check_key(key)
        delays = {key: _as_delay(f"tau[{key!r}]", delay) for key, delay in tau.items()}
        parameters = torch.nn.ParameterDict(delays)
    else:
        return _as_delay("tau", tau)
    if len(parameters) == 0:
        raise ValueError("`tau` has no delay. Give at least one.")
    return parameters


def _check_key(key: Any) -> None:
    """Raise an error for a name of a delay that torch does not accept."""
    if not isinstance(key, str) or not key:
        raise TypeError(
            f"The delays in `tau` have texts for names, but one is {key!r}."
        )
    if "." in key or hasattr(torch.nn.ParameterDict, key):
        raise ValueError(
            f"`tau` has a delay called {key!r}, which torch does not accept as the "
            "name of a parameter. Choose another name."
        )


def _delays(tau: Any) -> Any:
    """Return the delays of a layer as `rhs` gets them: a tensor, a tuple or a dict."""
    if isinstance(tau, torch.nn.ParameterList):
        return tuple(tau)
    return dict(tau.items()) if isinstance(tau, torch.nn.ParameterDict) else tau


def _as_delay(name: str, tau: Any) -> torch.nn.Parameter:
    """Return one delay as a parameter of the layer."""
    if not isinstance(tau, torch.nn.Parameter):
        try:
            tau = torch.nn.Parameter(torch.tensor(float(tau), dtype=torch.float64))
        except (TypeError, ValueError):
            raise TypeError(f"`{name}` must be a number, but got {tau!r}.") from None
    _check_delay(name, tau)
    return tau


def _check_delay(name: str, tau: torch.Tensor) -> float:
    """Return the value of a delay, which must be positive and finite."""
    if tau.numel() != 1 or not tau.is_floating_point():
        raise ValueError(
            f"`{name}` must be one floating-point number; several delays are a tuple "
            f"or a dict of them. Got shape {tuple(tau.shape)} and {tau.dtype}."
        )
    if not 0 < (value := tau.item()) < np.inf:
        raise ValueError(
            f"`{name}` must be positive and finite, but is {value}. If training drove "
            f"it there, {_remedy(name)}"
        )
    return value


def _remedy(name: str) -> str:
    """Say what to do about a delay that has become too short."""
    return (
        "lower the rate, or clamp it after each step: "
        f"`with torch.no_grad(): model.{name}.clamp_(min=0.01)`."
    )


def _as_times(times: Any) -> torch.Tensor:
    """Return the times as a vector of finite numbers that are not negative."""
    times = torch.as_tensor(times)
    if not times.is_floating_point():
        times = times.to(torch.get_default_dtype())
    if times.ndim != 1 or len(times) == 0:
        raise ValueError(
            f"`times` must be a vector; its shape is {tuple(times.shape)}."
        )
    if not bool(torch.all((times >= 0) & (times < torch.inf))):
        raise ValueError(
            "`times` must be finite and not negative; `model.history` is the solution "
            "before 0."
        )
    return times


@final
class _Solve(torch.autograd.Function):
    """The solve as an operation that autograd can differentiate. `leaves` are those of
    `Tensors`."""

    @staticmethod
    def forward(ctx, plan, options, times, *leaves):  # pyright: ignore
        structure, n, max_step = options
        tau = jax.tree.unflatten(structure, leaves).tau
        names = [f"tau{keystr(path)}" for path, _ in tree_leaves_with_path(tau)]
        delays = list(map(_check_delay, names, jax.tree.leaves(tau)))
        t = _array(times)
        order = np.argsort(t, kind="stable")
        if max_step is None and isinstance(tau, torch.Tensor):
            grid: Any = _grid(t.max(), n, delays[0])
            solve: Any = _solve_on_grid
        else:
            points = breaking_points(len(delays), (), False, plan.solver.order)
            T = max(float(t.max()), _SHORTEST)
            movers = np.array(delays)
            grid = mesh_for(points, movers, names, T, n, max_step)
            solve = _solve_on_mesh
        arrays = jax.tree.unflatten(structure, map(_array, leaves))
        arrays = arrays._replace(tau=jax.tree.map(np.squeeze, arrays.tau))
        x, vjp = solve(plan, grid, t[order], arrays)
        ctx.solve = plan, order, vjp
        ctx.save_for_backward(times, *leaves)
        states = np.empty(x.shape)
        states[..., order, :] = x
        return torch.from_numpy(states).to(times)

    @staticmethod
    def backward(ctx, cotangent):  # pyright: ignore
        needed = ctx.needs_input_grad[2:]
        cotangents = _SolveGradient.apply(
            *ctx.solve, needed, cotangent, *ctx.saved_tensors
        )
        return None, None, *cotangents


@final
class _SolveGradient(torch.autograd.Function):
    """The backward pass of `_Solve`, as an operation whose derivative is an error:
    without it, second derivatives would silently be zero."""

    @staticmethod
    def forward(ctx, plan, order, vjp, needed, cotangent, *tensors):  # pyright: ignore
        on_times, on_tensors = vjp(_array(cotangent)[..., order, :])
        unsorted = np.empty(len(order))
        unsorted[order] = on_times
        cotangents = [unsorted, *jax.tree.leaves(on_tensors)]
        return tuple(
            torch.from_numpy(np.array(array)).to(tensor).reshape(tensor.shape)
            if is_needed
            else None
            for array, tensor, is_needed in zip(cotangents, tensors, needed)
        )

    @staticmethod
    def backward(ctx, *cotangents):  # pyright: ignore
        raise NotImplementedError("`DelayODE` has first derivatives only.")


def _grid(T: float, n: int, tau: float) -> Grid:
    """Return the time grid up to T, with n steps in a delay."""
    if T / tau * n > _MAX_STEPS:
        raise ValueError(
            f"`tau`, {tau:g}, needs more than {_MAX_STEPS} steps up to the last of "
            f"`times`, {T:g}. If training drove it there, {_remedy('tau')}"
        )
    return make_grid(False, float(T), n, tau)


def _array(tensor: torch.Tensor) -> np.ndarray:
    """Copy a tensor to a numpy array, in double precision if it is floating-point.
    (Optimisers change parameters in place.)"""
    tensor = tensor.detach().cpu()
    tensor = tensor.double() if tensor.is_floating_point() else tensor
    return tensor.numpy().copy()


# The forward and the backward pass, compiled by JAX.


@final
@dataclass(frozen=True)
class SolvePlan:
    """Everything about a solve that is not an array. JAX compiles once for each plan.

    `batch` is the number of histories, or None for one without a batch axis."""

    rhs: ConvertedProgram
    history: ConvertedProgram
    solver: dd.AbstractSolver
    batch: int | None


class Tensors(NamedTuple):
    """The arrays that a trajectory depends on.

    `rhs` and `history` are the tensors of the modules by name. `history_inputs` are the
    arguments of the history after the time, each with a first axis over the batch."""

    tau: Any
    rhs: dict[str, Any]
    history: dict[str, Any]
    history_inputs: tuple


@final
class _Rhs(eqx.Module):
    """The right-hand side for all components of a batch."""

    tensors: dict[str, Any]
    program: ConvertedProgram = eqx.field(static=True)
    batch: int | None = eqx.field(static=True)

    def __call__(self, x, y, tau, t):
        def one(x, y):
            return self.program(self.tensors, x, y, tau, t)

        if self.batch is None:
            return one(x, y)
        x, y = jax.tree.map(lambda state: state.reshape(-1, self.batch), (x, y))
        return jax.vmap(one, in_axes=-1, out_axes=-1)(x, y).ravel()


@final
class _History(eqx.Module):
    """The history for all components of a batch."""

    tensors: dict[str, Any]
    inputs: tuple
    program: ConvertedProgram = eqx.field(static=True)

    def __call__(self, t):
        def one(*inputs):
            return self.program(self.tensors, t, *inputs)

        if not self.inputs:
            return one()
        return jax.vmap(one, out_axes=-1)(*self.inputs).ravel()


def _problem(plan: SolvePlan, tensors: Tensors) -> dd.Problem:
    """Return the equation to solve."""
    return dd.Problem(
        _Rhs(tensors.rhs, plan.rhs, plan.batch),
        _History(tensors.history, tensors.history_inputs, plan.history),
        tensors.tau,
    )


def _split_batch(x: jax.Array, batch: int | None) -> jax.Array:
    """Reshape (times, d * B) to (B, times, d); without a batch nothing changes."""
    return x if batch is None else x.reshape(len(x), -1, batch).transpose(2, 0, 1)


# The states at times, which must be sorted, and the vector-Jacobian product (VJP): from
# the cotangent of the states to those of times and tensors.
_Solved = tuple[jax.Array, Callable[[Any], tuple[jax.Array, Tensors]]]


def _solve_on_grid(
    plan: SolvePlan, grid: Grid, times: Any, tensors: Tensors
) -> _Solved:
    x, *solved = _on_grid(plan, grid, times, tensors)
    vjp = functools.partial(_on_grid_vjp, plan, grid, times, tensors, solved)
    return x, vjp


def _solve_on_mesh(
    plan: SolvePlan, mesh: Mesh, times: Any, tensors: Tensors
) -> _Solved:
    x, pull = _on_mesh(plan, mesh, times, tensors)
    return x, functools.partial(_pull, pull)


@functools.partial(jax.jit, static_argnums=0)
def _on_mesh(plan: SolvePlan, mesh: Mesh, times: Any, tensors: Tensors) -> Any:
    """Return the states, and their VJP as JAX gives it, a tree of arrays."""

    def states(times: jax.Array, tensors: Tensors) -> jax.Array:
        path = solve_mesh(_problem(plan, tensors), plan.solver, mesh, "reverse")
        return _split_batch(jax.vmap(path)(times), plan.batch)

    return jax.vjp(states, times, tensors)


@jax.jit
def _pull(pull: Any, cotangent: Any) -> Any:
    return pull(cotangent)


def _system(
    plan: SolvePlan, grid: Grid, tensors: Tensors, T: Any
) -> tuple[System, dd.Problem]:
    """Return the equation to solve up to time T, and its parameters."""
    problem = _problem(plan, tensors)
    params, fixed = eqx.partition(problem, eqx.is_inexact_array)
    engine = AlignedEngine(plan.solver)
    return System(fixed, engine, grid, T, problem.dimension), params


@functools.partial(jax.jit, static_argnums=(0, 1))
def _on_grid(
    plan: SolvePlan, grid: Grid, times: jax.Array, tensors: Tensors
) -> tuple[jax.Array, Any, Any]:
    """Return the states, and the path and its last step, for `_on_grid_vjp`: a VJP of
    JAX would keep much more, which makes the forward pass slower by a third."""
    system, params = _system(plan, grid, tensors, times[-1])
    path, last = solve_path(system, params, make_path(system, grid))
    x = jax.vmap(DenseOutput(grid, path, grid.step(tensors.tau), last))(times)
    return _split_batch(x, plan.batch), path, last


@functools.partial(jax.jit, static_argnums=(0, 1))
def _on_grid_vjp(
    plan: SolvePlan,
    grid: Grid,
    times: jax.Array,
    tensors: Tensors,
    solved: tuple[Any, Any],
    cotangent: jax.Array,
) -> tuple[jax.Array, Tensors]:
    """Compute the VJP of `_on_grid`, by the adjoint."""
    (path, last), (system, params) = solved, _system(plan, grid, tensors, times[-1])
    if plan.batch is not None:  # the inverse of `_split_batch`
        cotangent = cotangent.transpose(1, 2, 0).reshape(len(times), -1)

    # The gradient of this cost is the cotangent.
    def cost(x, value, weight, is_last):
        return jnp.sum(value * x)

    points = Points(times, cotangent, jnp.ones((len(times), 1)))
    buffers = make_buffers(system)._replace(path=path)
    path_cost = PointCosts(cost, system, points)
    _, gradient, _ = reverse_march(system, params, buffers, last, path_cost)
    dense_output = DenseOutput(grid, path, grid.step(tensors.tau), last)
    derivatives = jax.vmap(dense_output.slope)(times)
    history = gradient.history.tensors, gradient.history.inputs
    on_tensors = Tensors(gradient.tau, gradient.rhs.tensors, *history)
    return jnp.sum(cotangent * derivatives, axis=1), on_tensors
