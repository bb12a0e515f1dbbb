"""Torch modules: converted beside native ones, and beside an eager loop in torch."""

import time
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch import nn

import ddefind as dd
from ddefind._engine.aligned.path import make_grid
from ddefind.torch import DelayODE
from ddefind.torch._delay_ode import SolvePlan, Tensors, solve_on_grid

from . import _cases
from ._loops import RATE, gradient_loop
from ._report import Row, microseconds
from ._timing import in_turn, ratio

TITLE = "Torch modules, 100 RK2 steps, value and gradient; figure: see each row"
_LOSS = dd.Integral(dd.L2(), nodes="solver")


def _scalar(value: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(value, dtype=torch.float64))


class Logistic(nn.Module):
    def __init__(self):
        super().__init__()
        self.theta_0, self.theta_1 = _scalar(2.0), _scalar(1.5)

    def forward(self, x, y, tau, t):
        return self.theta_0 * x * (1 - self.theta_1 * y)


class HIV(nn.Module):
    def __init__(self):
        super().__init__()
        known = {name: float(value) for name, value in vars(dd.models.HIV()).items()}
        self.k, self.m = _scalar(known["k"]), _scalar(known["m"])
        self.delta, self.c = _scalar(known["delta"]), _scalar(known["c"])
        self.T_0, self.n_p = _scalar(known["T_0"]), _scalar(known["n_p"])
        self.N = _scalar(known["N"])

    def forward(self, x, y, tau, t):
        born = self.k * self.T_0 * y[1] * torch.exp(-self.m * tau)
        made = self.N * self.delta * x[0]
        return torch.stack(
            [
                born - self.delta * x[0],
                (1 - self.n_p) * made - self.c * x[1],
                self.n_p * made - self.c * x[2],
            ]
        )


class Neural(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.net = nn.Sequential(
            *(nn.Linear(2, width), nn.Tanh()),
            *(nn.Linear(width, width), nn.Tanh()),
            nn.Linear(width, 1),
        )

    def forward(self, x, y, tau, t):
        return self.net(torch.cat([x, y]))


class Periodic(nn.Module):
    def __init__(self, A, omega, b):
        super().__init__()
        self.A, self.omega, self.b = map(_scalar, (A, omega, b))

    def forward(self, t):
        return self.A * torch.sin(self.omega * t) + self.b


def _against_native(case: _cases.Case, module: nn.Module, epochs: int) -> Row:
    problem = case.problem
    rhs = dd.from_torch(module, dimension=problem.dimension)
    converted = dd.Problem(rhs, problem.history, problem.tau)
    jobs = {
        "native": gradient_loop(case, _LOSS, epochs),
        "torch": gradient_loop(
            _cases.Case(case.name, converted, case.data), _LOSS, epochs
        ),
    }
    seconds = in_turn(jobs, clock=time.process_time)
    measured = microseconds(np.median(seconds["torch"]) / epochs)
    native = microseconds(np.median(seconds["native"]) / epochs)
    size = sum(parameter.numel() for parameter in module.parameters())
    what = f"{case.name} ({size} weights), from_torch: times native"
    return Row(
        what,
        measured,
        ratio(seconds["torch"], seconds["native"]),
        1.2,
        f"native {native}",
    )


def _eager_loop(case: _cases.Case):
    """An epoch of the same training, as one writes it in torch: a loop over steps."""
    rhs, history, n = Logistic(), Periodic(-0.5, 3.0, 2.0), _cases.STEPS_PER_DELAY
    tau = _scalar(float(case.problem.tau))
    parameters = [*rhs.parameters(), *history.parameters(), tau]
    optimiser = torch.optim.SGD(parameters, lr=RATE)
    steps = int(np.ceil(case.data.T / tau.item() * n))
    nodes = np.arange(steps + 1) * tau.item() / n
    target = torch.tensor(
        np.asarray(jax.vmap(dd.spline(case.data))(jnp.asarray(nodes)))
    )

    def epoch():
        optimiser.zero_grad()
        h = tau / n
        past = [history(k * h).reshape(1) for k in range(-n, 0)]
        path = [*past, history(0 * h).reshape(1)]
        for i in range(steps):
            x, y, after = path[-1], path[i], path[i + 1]
            first = rhs(x, y, tau, i * h)
            second = rhs(x + h * first, after, tau, (i + 1) * h)
            path.append(x + h / 2 * (first + second))
        costs = ((torch.stack(path[n:]) - target) ** 2).sum(1)
        loss = h * (costs.sum() - (costs[0] + costs[-1]) / 2)
        loss.backward()
        optimiser.step()
        return loss.item()

    return epoch


def _against_eager() -> Row:
    native = _cases.paper("logistic")
    rhs, history = Logistic(), Periodic(-0.5, 3.0, 2.0)
    problem = dd.Problem(dd.from_torch(rhs), dd.from_torch(history), native.problem.tau)
    case, epochs = _cases.Case("Logistic", problem, native.data), 2000
    eager = _eager_loop(case)
    value, _ = dd.value_and_grad(
        problem, case.data, loss=_LOSS, solver=dd.RK2(), steps_per_delay=10
    )
    np.testing.assert_allclose(eager(), value, rtol=1e-9)
    jobs = {"ours": gradient_loop(case, _LOSS, epochs), "eager": eager}
    seconds = in_turn(jobs, repeats=11, clock=time.process_time)
    faster = ratio(epochs * seconds["eager"], seconds["ours"])
    note = f"eager {1e3 * np.median(seconds['eager']):.3g} ms: {faster:,.0f} times"
    what = "Logistic, an epoch: thousandths of eager torch"
    measured = microseconds(np.median(seconds["ours"]) / epochs)
    return Row(what, measured, 1000 / faster, 1, note)


def _overhead() -> Iterator[Row]:
    """What a call costs beside the compiled programs that it runs."""
    case = _cases.paper("logistic")
    rhs, history = Logistic(), Periodic(-0.5, 3.0, 2.0)
    tau, times = float(case.problem.tau), torch.tensor(case.data.t)
    model = DelayODE(rhs, history, tau, solver=dd.RK2(), steps_per_delay=10)
    rhs_program, history_program = model._convert(())
    grid = make_grid(False, case.data.T, 10, tau)
    plan = SolvePlan(rhs_program, history_program, dd.RK2(), None)
    of_rhs, of_history = (
        {n: p.detach().numpy() for n, p in module.named_parameters()}
        for module in (rhs, history)
    )
    tensors = Tensors(np.array(tau), of_rhs, of_history, ())

    def solved():
        x, vjp = solve_on_grid(plan, grid, case.data.t, tensors)
        return jax.block_until_ready(x), vjp

    def pulled_back():
        x, vjp = solved()
        return jax.block_until_ready(vjp(np.ones(x.shape)))

    jobs = {
        "forward": lambda: model(times),
        "and backward": lambda: model(times).sum().backward(),
        "solved": solved,
        "pulled back": pulled_back,
    }
    seconds = in_turn(jobs, repeats=201)
    for whole, part in (("forward", "solved"), ("and backward", "pulled back")):
        extra = float(np.median(seconds[whole] - seconds[part]))
        measured = microseconds(np.median(seconds[whole]))
        yield Row(f"DelayODE, {whole}: overhead in ms", measured, 1e3 * extra, 1)


def rows() -> Iterator[Row]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    yield _against_native(_cases.paper("logistic"), Logistic(), 1000)
    yield _against_native(_cases.paper("hiv"), HIV(), 500)
    yield _against_native(_cases.neural(7, 2), Neural(7), 200)
    yield _against_native(_cases.neural(29, 2), Neural(29), 50)
    yield _against_eager()
    yield from _overhead()
