"""Torch modules with several delays: `from_torch`, `DelayODE`, and their messages."""

import copy
import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

import ddefind as dd
from ddefind.torch import DelayODE
from support import torch_modules as tm
from support.fits import simulated

TAU = {"rest": 1.37, "growth": 0.61}
TIMES = torch.tensor([0.0, 0.3, 0.9, 1.7, 4.1], dtype=torch.float64)


def scalar(value):
    return nn.Parameter(torch.tensor(value, dtype=torch.float64))


class ByName(nn.Module):
    """Growth that is limited by the state a rest ago."""

    def __init__(self):
        super().__init__()
        self.r, self.c = scalar(1.1), scalar(0.4)

    def forward(self, x, y, tau, t):
        dies = self.c * y["growth"] * torch.exp(-tau["growth"])
        return self.r * x * (1 - y["rest"]) - dies


class ByNumber(ByName):
    """The same, with a tuple of delays."""

    def forward(self, x, y, tau, t):
        dies = self.c * y[0] * torch.exp(-tau[0])
        return self.r * x * (1 - y[1]) - dies


class OneDelay(nn.Module):
    def forward(self, x, y, tau, t):
        return -y


class Past(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = scalar([0.4])

    def forward(self, t):
        return self.b + 0.1 * torch.sin(t)


class PastOfOne(nn.Module):
    def forward(self, t, u):
        return u * (1 + 0.1 * t)


def native(tau: Any = TAU):
    """The same problem without torch."""

    def rhs(x, y, tau, t):
        dies = 0.4 * y["growth"] * jnp.exp(-tau["growth"])
        return 1.1 * x * (1 - y["rest"]) - dies

    return dd.Problem(rhs, lambda t: 0.4 + 0.1 * jnp.sin(jnp.array([t])), tau)


@functools.cache
def converted():
    return DelayODE(ByName(), Past(), TAU)


def model():
    return copy.deepcopy(converted())


@pytest.mark.slow
def test_trajectories_are_those_of_solve():
    expected = dd.solve(native(), 4.1)(TIMES.numpy())
    for layer in (model(), DelayODE(ByNumber(), Past(), (0.61, 1.37))):
        np.testing.assert_allclose(layer(TIMES).detach(), expected, rtol=1e-13)
    by_step = DelayODE(ByName(), Past(), TAU, max_step=0.1)(TIMES).detach()
    expected = dd.solve(native(), 4.1, max_step=0.1)(TIMES.numpy())
    np.testing.assert_allclose(by_step, expected, rtol=1e-13)


@pytest.mark.slow
def test_derivatives_are_those_of_differences():
    assert tm.differences_agree(model(), TIMES[1:])


@pytest.mark.slow
def test_derivatives_with_delays_beyond_the_last_time_or_shorter_than_a_step():
    assert tm.differences_agree(model(), TIMES[1:2])
    short = DelayODE(ByName(), Past(), {**TAU, "growth": 0.033}, max_step=0.2)
    assert tm.differences_agree(short, TIMES[1:])


@pytest.mark.slow
def test_one_delay_may_have_longer_steps_than_the_delay():
    layer = DelayODE(OneDelay(), Past(), 0.05, max_step=0.2)
    fine = DelayODE(OneDelay(), Past(), 0.05)(TIMES)
    torch.testing.assert_close(layer(TIMES), fine, rtol=1e-3, atol=1e-3)
    assert tm.differences_agree(layer, TIMES[1:])


@pytest.mark.slow
def test_a_batch_is_its_trajectories_one_by_one():
    layer = DelayODE(ByName(), PastOfOne(), TAU)
    u = torch.tensor([[0.2], [0.5], [0.9]], dtype=torch.float64, requires_grad=True)
    assert tm.check_batch(layer, TIMES, u).shape == (3, 5, 1)
    assert torch.autograd.gradcheck(lambda u: layer(TIMES, u), (u,))


@pytest.mark.slow
def test_delays_are_parameters_with_names():
    by_name, by_number = model(), DelayODE(ByNumber(), Past(), (0.61, 1.37))
    modules = ["rhs.r", "rhs.c", "history.b"]
    assert list(by_name.state_dict()) == [*modules, "tau.growth", "tau.rest"]
    assert list(by_number.state_dict()) == [*modules, "tau.0", "tau.1"]
    shared = scalar(0.61)
    layer = DelayODE(ByName(), Past(), {"growth": shared, "rest": 1.37})
    layer(TIMES).sum().backward()
    assert shared.grad is not None and shared.grad != 0.0
    layer.tau["rest"].requires_grad_(False).grad = None
    layer(TIMES).sum().backward()
    assert layer.tau["rest"].grad is None


def test_copies_and_files_have_all_delays():
    layer = model()
    with torch.no_grad():
        layer.tau["rest"].mul_(1.1)
    tm.check_copies(layer, model(), TIMES)


class Network(nn.Module):
    """A network for the growth; the delays stand in both of its inputs."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1))

    def forward(self, x, y, tau, t):
        return self.net(torch.cat([y["growth"], y["rest"]])) - 0.5 * x


@pytest.mark.slow
def test_a_network_with_two_delays_trains_in_torch():
    torch.manual_seed(0)
    times = torch.linspace(0, 6, 41, dtype=torch.float64)
    target = torch.tensor(np.asarray(dd.solve(native(), 6.0)(times.numpy())))
    layer = DelayODE(Network(), Past(), {"growth": 0.5, "rest": 1.2}).double()
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.03)
    losses = []
    for _ in range(80):
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(layer(times), target)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 5e-3 < 0.1 < losses[0]
    # Both delays are learned with the weights.
    assert layer.tau["growth"].item() > 0.6 and layer.tau["rest"].item() > 1.3


@pytest.mark.slow
def test_two_delays_of_a_torch_module_are_fitted():
    rhs = dd.from_torch(ByNumber(), tau=(0.61, 1.37))
    truth = dd.Problem(rhs, dd.Constant(0.4), (0.61, 1.37))
    data = simulated(truth, np.linspace(0, 12, 61), 0.002, seed=3)
    fit = dd.fit(dd.Problem(rhs, dd.Constant(0.5), (1.0, 1.0)), data, intervals=False)
    assert isinstance(fit, dd.Estimate)
    assert list(fit.values) == ["r", "c", "b", "tau[0]", "tau[1]"]
    expected = np.array([1.1, 0.4, 0.4, 0.61, 1.37])
    errors = np.array(list(fit.standard_errors.values()))
    assert np.all(abs(np.array(list(fit.values.values())) - expected) < 4 * errors)
    learned = fit.to_torch()
    assert learned.tau == tuple(fit.values[name] for name in ("tau[0]", "tau[1]"))
    assert isinstance(learned.rhs, ByNumber)
    assert learned.rhs.r.item() == pytest.approx(fit.values["r"])


def test_a_converted_module_has_the_native_solution_and_gradient():
    problem = dd.Problem(dd.from_torch(ByName(), tau=TAU), native().history, TAU)
    data = dd.Data(TIMES.numpy(), np.ones(5))
    (value, slope), (expected, exact) = (
        dd.value_and_grad(p, data) for p in (problem, native())
    )
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for name in TAU:
        np.testing.assert_allclose(slope.tau[name], exact.tau[name], rtol=1e-10)


class WrongKey(nn.Module):
    def forward(self, x, y, tau, t):
        return -y["maturation"]


class Third(nn.Module):
    def forward(self, x, y, tau, t):
        return -y[2]


def note(call, *arguments, **options):
    with pytest.raises((TypeError, KeyError, IndexError)) as caught:
        call(*arguments, **options)
    return caught.value.__notes__[0]


def test_the_note_on_an_error_of_forward_says_what_y_and_tau_are():
    by_name = "y and tau are dicts, as `tau` is, with 2 delays: 'growth', 'rest'."
    tau = dict(sorted(TAU.items()))
    for module in (OneDelay(), WrongKey()):
        assert by_name in note(dd.from_torch, module, tau=tau)
        assert by_name in note(DelayODE, module, Past(), TAU)
    by_number = "y and tau are tuples, as `tau` is, with 2 delays."
    assert by_number in note(dd.from_torch, Third(), tau=(1.0, 2.0))
    one = "one tensor each, for one delay. For several delays give `tau`"
    assert one in note(dd.from_torch, ByName())
    assert one in note(DelayODE, ByName(), Past(), 1.0)


def test_a_problem_needs_the_delays_that_its_module_was_converted_for():
    one, by_name = dd.from_torch(OneDelay()), dd.from_torch(ByName(), tau=TAU)
    by_number = dd.from_torch(ByNumber(), tau=(1.0, 2.0))
    names = "a dict of the delays 'growth', 'rest'"
    cases = [
        (one, TAU, f"for one delay, but the problem has {names}"),
        (by_name, 1.0, f"for {names}, but the problem has one delay"),
        (by_name, {"rest": 1.0, "sleep": 1.0}, "has a dict of the delays 'rest', 'sl"),
        (by_number, (1.0, 2.0, 3.0), "for a tuple of 2 delays, but .* of 3 delays"),
    ]
    for rhs, tau, message in cases:
        with pytest.raises(ValueError, match=f"{message}.*Give the same `tau` to both"):
            dd.Problem(rhs, dd.Constant(1.0), tau)


def test_a_delay_that_is_not_used_is_announced():
    class Half(nn.Module):
        def forward(self, x, y, tau, t):
            return -y["rest"]

    wanted = r"does not use `y\['growth'\]`.*data cannot determine `tau\['growth'\]`"
    with pytest.warns(UserWarning, match=wanted):
        dd.from_torch(Half(), tau=TAU)


def test_delays_that_will_not_do_are_refused():
    bad = [
        ({}, "`tau` has no delay"),
        ({"rest": 1.0, "growth": -1.0}, r"`tau\['growth'\]` must be positive .* -1"),
        ({"rest": 1.0, "growth": [1.0]}, r"`tau\['growth'\]` must be a number"),
        ({"rest": 1.0, 3: 1.0}, "texts for names, but one is 3"),
        ({"rest": 1.0, "a.b": 1.0}, "called 'a.b', which torch does not accept"),
        ({"rest": 1.0, "keys": 1.0}, "called 'keys', which torch does not accept"),
        ((1.0, 0.0), r"`tau\[1\]` must be positive and finite, but is 0"),
        ((1.0, nn.Parameter(torch.ones(2))), r"`tau\[1\]` must be one floating"),
    ]
    for tau, message in bad:
        with pytest.raises((TypeError, ValueError), match=message):
            DelayODE(ByName(), Past(), tau)
    for tau, message in (({"a": -1.0}, "`a` must be positive"), ("a", "`tau` must be")):
        with pytest.raises((TypeError, ValueError), match=message):
            dd.from_torch(ByName(), tau=tau)


@pytest.mark.parametrize(
    "rest, message",
    [
        (-0.5, r"drove it.*model\.tau\['rest'\]\.clamp_"),
        (1e-9, r"in the delay `tau\['rest'\]`.*`max_step`"),
    ],
)
def test_a_delay_that_training_drove_away_has_a_remedy(rest, message):
    layer = model()
    with torch.no_grad():
        layer.tau["rest"].fill_(rest)
    with pytest.raises(ValueError, match=message):
        layer([1.0])
