"""`DelayODE`: a delay equation as a layer of a PyTorch program."""

from typing import Any, final

import numpy as np

from .._solve.grid import Grid
from .._solve.runge_kutta import RK4, AbstractSolver
from .._solve.solution import check_steps, make_grid
from .._util.errors import check_instance
from ._check_module import (
    arguments_of,
    as_double,
    check_mode,
    moody_parts,
    name_of,
    try_history,
    try_rhs,
)
from ._compiled_solve import SolvePlan, Tensors, pulled, trajectory
from ._convert import convert, tensors_of
from ._import_torch import torch

_MOST_STEPS = 1 << 22
_REMEDY = (
    "lower the rate, or clamp it after each step: "
    "`with torch.no_grad(): model.tau.clamp_(min=0.01)`."
)


@final
class DelayODE(torch.nn.Module):
    r"""$x'(t) = F(x(t), x(t-\tau), \tau, t)$ for $t > 0$ and $x = X_0$ before, solved
    as a layer: `model(times)` is the trajectory, of shape (len(times), d).

    **Arguments**

    - `rhs`: $F$, a module with `forward(x, y, tau, t)` (see `dd.from_torch`).
    - `history`: $X_0$, a module with `forward(t)`. With further arguments it stands for
      a batch of histories: `forward(t, z)` is the history of one trajectory, and
      `model(times, z)`, with a first axis of z over the batch, has the shape (batch,
      len(times), d).
    - `tau`: the delay, a positive number or an `nn.Parameter`.
    - `solver`, `steps_per_delay`: as in `dd.solve`.

    Its parameters are those of `rhs` and `history`, and `tau`. Autograd differentiates
    the trajectory for all of them, for z and for `times`, once. Everything is computed
    in float64 on the CPU; the result has the type and the device of `times`.

    >>> import torch
    >>> class Decay(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.rate = torch.nn.Parameter(torch.tensor(1.0))
    ...     def forward(self, x, y, tau, t):
    ...         return -self.rate * y
    >>> class From(torch.nn.Module):
    ...     def forward(self, t, z):
    ...         return z
    >>> model = DelayODE(Decay(), From(), tau=1.0)
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
        solver: AbstractSolver = RK4(),
        steps_per_delay: int = 20,
    ):
        super().__init__()
        check_instance("solver", solver, AbstractSolver, "RK4()")
        # In a tuple they are no parts of the model.
        self._copies = as_double("rhs", rhs), as_double("history", history)
        _check_arguments(rhs, history)
        self.rhs, self.history = rhs, history
        self.tau = _as_delay(tau)
        self.solver, self.steps_per_delay = solver, check_steps(steps_per_delay)
        self._moody = [
            ("rhs", moody_parts(rhs)),
            ("history", moody_parts(history)),
        ]
        self._programs: dict = {}
        self._arguments = arguments_of(history)[1:]
        if not self._arguments:
            self._convert(())

    def _convert(self, shapes: tuple):
        """The programs for rows of given shapes, converted once."""
        if shapes not in self._programs:
            rhs, history = self._copies
            past = try_history(history, shapes)
            now = try_rhs(rhs, past.dimension)
            self._programs[shapes] = (
                convert(rhs, now).program,
                convert(history, past).program,
            )
        return self._programs[shapes]

    def forward(self, times: Any, *rows: torch.Tensor) -> torch.Tensor:
        """The states at `times`, which are in any order, from 0 on."""
        for argument, parts in self._moody:
            check_mode(argument, parts)
        times, rows = _as_times(times), self._as_rows(rows)
        rhs, history = self._convert(tuple(tuple(row.shape[1:]) for row in rows))
        setting = rhs, history, self.solver, len(rows[0]) if rows else None
        on_rhs, on_history = tensors_of(self.rhs), tensors_of(self.history)
        return _Solve.apply(
            (*setting, self.steps_per_delay),
            times,
            self.tau,
            *(on_rhs[name] for name in rhs.tensors),
            *(on_history[name] for name in history.tensors),
            *rows,
        )

    def _as_rows(self, rows: tuple) -> tuple[torch.Tensor, ...]:
        """The arguments of the histories: floating-point, with a batch axis."""
        names = self._arguments
        if len(names) != len(rows):
            raise TypeError(
                f"{name_of(self.history)} takes ({', '.join(['t', *names])}), so call "
                f"the model as `model({', '.join(['times', *names])})`; it got "
                f"{len(rows)} arguments beside `times`."
            )
        rows = tuple(map(torch.as_tensor, rows))
        for name, row in zip(names, rows):
            if row.ndim == 0 or len(row) != len(rows[0]) or len(row) == 0:
                raise ValueError(
                    f"`{name}` must have a first axis over the batch, of the same "
                    f"length for every argument; its shape is {tuple(row.shape)}."
                )
            if not row.is_floating_point():
                raise ValueError(f"`{name}` must be floating-point, not {row.dtype}.")
        return rows


def _check_arguments(rhs: torch.nn.Module, history: torch.nn.Module) -> None:
    found = arguments_of(rhs)
    if len(found) != 4:
        raise TypeError(
            f"{name_of(rhs)} takes ({', '.join(found)}), but a right-hand side is "
            "`forward(x, y, tau, t)`. Name every argument, also those not used."
        )
    if not arguments_of(history):
        raise TypeError(
            f"{name_of(history)} takes no argument, but a history is `forward(t)`."
        )


def _as_delay(tau: Any) -> torch.nn.Parameter:
    if not isinstance(tau, torch.nn.Parameter):
        try:
            tau = torch.nn.Parameter(torch.tensor(float(tau), dtype=torch.float64))
        except (TypeError, ValueError):
            raise TypeError(f"`tau` must be a number, but got {tau!r}.") from None
    _check_delay(tau)
    return tau


def _check_delay(tau: torch.Tensor) -> float:
    if tau.numel() != 1 or not tau.is_floating_point():
        raise ValueError(
            f"`tau` must be one floating-point number: one constant delay is "
            f"supported. Got shape {tuple(tau.shape)} and {tau.dtype}."
        )
    if not 0 < (value := tau.item()) < np.inf:
        raise ValueError(
            f"`tau` must be positive and finite, but is {value}. If training drove it "
            f"there, {_REMEDY}"
        )
    return value


def _as_times(times: Any) -> torch.Tensor:
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
    """The bridge from autograd to the compiled solve; arrays cross it as numpy's."""

    @staticmethod
    def forward(ctx, setting, times, tau, *tensors):  # pyright: ignore
        rhs, history, solver, batch, n = setting
        delay, clock = _check_delay(tau), _array(times)
        order = np.argsort(clock, kind="stable")
        plan = SolvePlan(rhs, history, solver, batch, _grid(clock.max(), n, delay))
        arrays = _pack(plan, [_array(tensor) for tensor in (tau, *tensors)])
        x, path, last = trajectory(plan, clock[order], arrays)
        ctx.order, ctx.call = order, (plan, clock[order], arrays, path, last)
        ctx.save_for_backward(times, tau, *tensors)
        found = np.empty(x.shape)
        found[..., order, :] = x
        return torch.from_numpy(found).to(times)

    @staticmethod
    def backward(ctx, cotangent):  # pyright: ignore
        needed = ctx.needs_input_grad[1:]
        slopes = _Slopes.apply(
            ctx.call, ctx.order, needed, cotangent, *ctx.saved_tensors
        )
        return None, *slopes


@final
class _Slopes(torch.autograd.Function):
    """The gradient, which has no derivative itself: autograd would take it for a
    constant."""

    @staticmethod
    def forward(ctx, call, order, needed, cotangent, *tensors):  # pyright: ignore
        on_times, on_tensors = pulled(*call, _array(cotangent)[..., order, :])
        unsorted = np.empty(len(order))
        unsorted[order] = on_times
        found = [unsorted, *_unpack(call[0], on_tensors)]
        return tuple(
            torch.from_numpy(np.array(slope)).to(like).reshape(like.shape)
            if wanted
            else None
            for slope, like, wanted in zip(found, tensors, needed)
        )

    @staticmethod
    def backward(ctx, *cotangents):  # pyright: ignore
        raise NotImplementedError("`DelayODE` has first derivatives only.")


def _grid(T: float, n: int, tau: float) -> Grid:
    if T / tau * n > _MOST_STEPS:
        raise ValueError(
            f"`tau`, {tau:g}, needs more than {_MOST_STEPS} steps up to the last of "
            f"`times`, {T:g}. If training drove it there, {_REMEDY}"
        )
    return make_grid(False, float(T), n, tau)


def _array(tensor: torch.Tensor) -> np.ndarray:
    """A copy: an optimiser writes into its parameters."""
    tensor = tensor.detach().cpu()
    if tensor.is_floating_point():
        tensor = tensor.double()
    return tensor.numpy().copy()


def _pack(plan: SolvePlan, arrays: list) -> Tensors:
    middle = 1 + len(plan.rhs.tensors)
    end = middle + len(plan.history.tensors)
    return Tensors(
        arrays[0].reshape(()),
        dict(zip(plan.rhs.tensors, arrays[1:middle])),
        dict(zip(plan.history.tensors, arrays[middle:end])),
        tuple(arrays[end:]),
    )


def _unpack(plan: SolvePlan, tensors: Tensors) -> list:
    return [
        tensors.tau,
        *(tensors.rhs[name] for name in plan.rhs.tensors),
        *(tensors.history[name] for name in plan.history.tensors),
        *tensors.rows,
    ]
