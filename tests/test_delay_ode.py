"""`DelayODE` inside torch: trajectories, gradients by autograd, batches, training, and
the examples with torch."""

import copy
import functools
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import ddefind as dd
from ddefind.torch import DelayODE
from support import torch_modules as tm

TIMES = torch.tensor([0.0, 0.4, 1.3, 2.71, 4.0], dtype=torch.float64)


@functools.cache
def converted():
    rhs, history = tm.Logistic(2.0, 1.5), tm.Periodic(-0.5, 3.0, 2.0)
    return DelayODE(rhs, history, tau=0.97, steps_per_delay=7)


def logistic():
    return copy.deepcopy(converted()).double()


def native():
    return dd.Problem(dd.models.Logistic(2.0, 1.5), dd.Periodic(-0.5, 3.0, 2.0), 0.97)


class FromState(nn.Module):
    """A history for each trajectory, through its own state and slope at zero."""

    def __init__(self):
        super().__init__()
        self.curve = nn.Parameter(torch.tensor(0.3))

    def forward(self, t, state, slope):
        return state + slope * t + self.curve * t**2


@functools.cache
def batch_model():
    torch.manual_seed(2)
    return DelayODE(tm.MLP(nn.Tanh()), FromState(), tau=0.7, steps_per_delay=8).double()


def rows(batch):
    generator = torch.Generator().manual_seed(batch)
    return [
        torch.rand(batch, width, generator=generator, dtype=torch.float64)
        for width in (2, 1)
    ]


def test_trajectories_are_those_of_solve():
    found = logistic()(TIMES).detach()
    expected = dd.solve(native(), 4.0, dd.RK4(), 7)(TIMES.numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_gradients_are_those_of_the_native_problem():
    model, data = logistic(), dd.Data(TIMES.numpy(), np.ones(5))
    loss = ((model(TIMES) - 1) ** 2).sum()
    loss.backward()
    value, gradient = dd.value_and_grad(native(), data, steps_per_delay=7)
    assert loss.item() == pytest.approx(float(value), rel=1e-12)
    pairs = {
        "tau": gradient.tau,
        "rhs.theta_0": gradient.rhs.theta_0,
        "rhs.theta_1": gradient.rhs.theta_1,
        "history.A": gradient.history.A[0],
        "history.omega": gradient.history.omega[0],
        "history.b": gradient.history.b[0],
    }
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.item() == pytest.approx(float(pairs[name]), rel=1e-10)
    assert len(pairs) == len(list(model.parameters()))


def test_gradcheck_passes():
    assert tm.differences_agree(logistic(), TIMES[1:])
    # A delay beyond the last time: all of the past is history.
    assert tm.differences_agree(logistic(), TIMES[1:2])


def test_gradcheck_passes_for_batches():
    assert tm.differences_agree(batch_model(), TIMES[1:4], *rows(3))


def test_a_batch_is_its_trajectories_one_by_one():
    assert tm.check_batch(batch_model(), TIMES, *rows(4)).shape == (4, 5, 2)


def test_times_come_in_any_order_and_may_repeat():
    model, order = logistic(), [3, 0, 2, 2, 4]
    times = TIMES[order].requires_grad_()
    found = model(times)
    torch.testing.assert_close(found, model(TIMES)[order], rtol=1e-12, atol=0.0)
    found[1:4].sum().backward()
    slopes = times.grad
    assert slopes is not None
    assert slopes[0] == slopes[4] == 0.0 != slopes[2] == slopes[3]


def test_types_follow_the_times_and_gradients_their_parameters():
    model = copy.deepcopy(converted())
    rhs = model.rhs
    assert isinstance(rhs, tm.Logistic)
    assert model.tau.dtype == torch.float64 and rhs.theta_0.dtype == torch.float32
    found = model(TIMES.float())
    assert found.dtype == torch.float32
    exact = logistic()(TIMES).float()
    torch.testing.assert_close(found, exact, rtol=1e-6, atol=1e-6)
    found.sum().backward()
    assert rhs.theta_0.grad is not None
    assert rhs.theta_0.grad.dtype == torch.float32
    assert model([1, 2]).dtype == torch.get_default_dtype()
    assert model(np.array([1.0, 2.0])).dtype == torch.float64


class Buffered(nn.Module):
    known: torch.Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("known", torch.tensor(1.0))
        self.rate = nn.Parameter(torch.tensor(0.5))
        self.still = nn.Parameter(torch.tensor(0.5), requires_grad=False)

    def forward(self, x, y, tau, t):
        return -self.known * self.rate * self.still * y


def test_tensors_are_read_at_every_call():
    model = DelayODE(Buffered(), tm.Periodic(0.0, 1.0, 1.0), 1.0)
    first = model(TIMES)
    first.sum().backward()
    assert isinstance(model.rhs, Buffered)
    assert model.rhs.still.grad is None and model.rhs.rate.grad is not None
    with torch.no_grad():
        model.rhs.known.fill_(2.0)
        model.rhs.rate.fill_(0.25)
    torch.testing.assert_close(model(TIMES), first)
    model.load_state_dict({**model.state_dict(), "tau": torch.tensor(2.0)})
    assert not torch.allclose(model(TIMES), first)


def test_state_dicts_copies_and_files():
    model, other = logistic(), logistic()
    names = ["rhs.theta_0", "rhs.theta_1", "history.A", "history.omega", "history.b"]
    assert list(model.state_dict()) == ["tau", *names]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    tm.check_copies(model, other, TIMES)


def test_a_delay_that_is_shared_or_fixed():
    tau = nn.Parameter(torch.tensor(0.97, dtype=torch.float64))
    model = DelayODE(tm.Logistic(2.0, 1.5), tm.Periodic(-0.5, 3.0, 2.0), tau)
    assert model.tau is tau
    tau.requires_grad_(False)
    model(TIMES).sum().backward()
    assert tau.grad is None and model.rhs.theta_0.grad is not None


def test_no_derivative_is_kept_where_none_is_wanted():
    with torch.no_grad():
        assert not logistic()(TIMES).requires_grad
    first = torch.autograd.grad(
        logistic()(TIMES).sum(), TIMES.clone().requires_grad_(), allow_unused=True
    )
    assert first == (None,)


def test_second_derivatives_are_refused_not_wrong():
    model = logistic()
    (slope,) = torch.autograd.grad(model(TIMES).sum(), model.tau, create_graph=True)
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        slope.backward()


def test_it_trains_with_torchs_own_optimiser_and_loader():
    truth, model = logistic(), logistic()
    assert isinstance(model.rhs, tm.Logistic)
    times = torch.linspace(0, 5, 41, dtype=torch.float64)
    with torch.no_grad():
        target = truth(times)
        model.tau.fill_(0.85)
        model.rhs.theta_0.fill_(1.7)
    for parameter in model.history.parameters():
        parameter.requires_grad_(False)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(times[1:], target[1:]), batch_size=20
    )
    for _ in range(60):
        for moments, states in loader:
            optimiser.zero_grad()
            nn.functional.mse_loss(model(moments), states).backward()
            optimiser.step()
    assert abs(model.tau.item() - 0.97) < 0.01
    assert abs(model.rhs.theta_0.item() - 2.0) < 0.05


EXAMPLES = Path(__file__).parent.parent / "examples"


def run_example(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()


def test_a_torch_module_in_and_a_torch_module_out(capsys):
    found = run_example("torch_fit")
    assert abs(found["tau"] - 1) < 0.02 and found["error"] < 0.2
    assert "crowding" in capsys.readouterr().out


def test_a_plain_torch_training_loop(capsys):
    found = run_example("torch_training_loop")
    assert list(found) == ["tau", "rhs.beta", "rhs.gamma"]
    for value, true in zip(found.values(), (1.5, 2.0, 1.0)):
        assert abs(value - true) < 0.03
    assert "epoch  60" in capsys.readouterr().out
