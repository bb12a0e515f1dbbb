"""Characteristic roots against Lambert's W, and the stability of fitted equations."""

import numpy as np
import pytest
from scipy.special import lambertw

import ddefind as dd
from ddefind._inference.characteristic_roots import rightmost_roots
from support.options import QUIET
from support.unchecked import unchecked

NEAR = dd.LeastSquares(starts=1)


def scalar_roots(a, b, tau):
    """All roots of lambda = a + b exp(-lambda tau) that matter, by Lambert's W."""
    branches = lambertw(b * tau * np.exp(-a * tau), unchecked(np.arange(-40, 41)))
    return a + branches / tau


@pytest.mark.parametrize("seed", range(50))
def test_the_roots_of_random_equations_are_lamberts(seed):
    """Scalar, and systems that a change of variables makes scalar."""
    random = np.random.default_rng(seed)
    d, tau = int(random.integers(1, 5)), 10 ** random.uniform(-1, 1)
    a, b = random.normal(size=(2, d)) * 10 ** random.uniform(-1, 1, (2, 1))
    change = random.normal(size=(d, d)) + 3 * np.eye(d)
    A, B = (change @ np.diag(x) @ np.linalg.inv(change) for x in (a, b))
    exact = np.concatenate([scalar_roots(*pair, tau) for pair in zip(a, b)])
    exact = exact[np.argsort(-np.real(exact))]
    found = rightmost_roots(A, B, tau)
    size = 1 + np.abs(exact[:6])
    assert np.all(np.abs(np.real(found) - np.real(exact[:6])) < 1e-8 * size)
    turns = np.abs(np.imag(found)) - np.abs(np.imag(exact[:6]))
    assert np.all(np.abs(turns) < 1e-7 * size)
    assert (found[0].real < 0) == (exact[0].real < 0)


def test_roots_where_there_are_few_or_double_ones():
    np.testing.assert_allclose(rightmost_roots([[-1.0]], [[0.0]], 2.0), [-1.0])
    # Coupled in one direction only, the delay leaves no trace.
    found = rightmost_roots(np.diag([1.0, -2.0]), [[0.0, 1.0], [0.0, 0.0]], 1.0)
    np.testing.assert_allclose(found, [1.0, -2.0], atol=1e-9)
    # At b tau = -1/e two real roots meet at -1/tau.
    found = rightmost_roots([[0.0]], [[-1 / np.e]], 1.0)
    np.testing.assert_allclose(found[0], -1.0, atol=1e-5)
    # On the brink of stability: x' = -pi/2 x(t - 1) is a cosine.
    found = rightmost_roots([[0.0]], [[-np.pi / 2]], 1.0)
    np.testing.assert_allclose(found[:2], [0.5j * np.pi, -0.5j * np.pi], atol=1e-12)


def logistic_fit(r, seed=0):
    model = dd.equation("x' = r * x * (1 - x(t - tau) / K)", history=0.5)
    truth = model.problem(r=r, K=2.0, tau=1.0)
    t = np.linspace(0, 15, 80)
    noise = 0.02 * np.random.default_rng(seed).normal(size=(80, 1))
    data = dd.Data(t, dd.solve(truth, 15.0)(t) + noise)
    start = {"r": r, "K": 2.0, "tau": 1.0}
    return dd.fit(model, data, parameters=start, optimizer=NEAR, **QUIET)


@pytest.mark.parametrize(("r", "verdict"), [(1.2, "stable"), (1.9, "unstable")])
def test_the_delayed_logistic_equation_turns_unstable_at_half_pi(r, verdict):
    """At x = K disturbances obey u' = -r u(t - tau)."""
    fit = logistic_fit(r)
    found = fit.stability()
    at_K, at_zero = found.equilibria
    np.testing.assert_allclose(at_K.x, fit.values["K"], rtol=1e-9)
    r_tau = fit.values["r"] * fit.values["tau"]
    root = lambertw(-r_tau) / fit.values["tau"]
    assert at_K.growth == pytest.approx(root.real, rel=1e-9)
    assert at_K.period == pytest.approx(2 * np.pi / abs(root.imag), rel=1e-9)
    assert at_K.verdict == verdict and at_K.is_stable == (verdict == "stable")
    # Its error is that of a function of the parameters.
    values = fit.bootstrap(400).values
    r, tau = (values[:, fit.names.index(name)] for name in ("r", "tau"))
    roots = lambertw(-r * tau) / tau
    assert at_K.growth_error == pytest.approx(np.std(roots.real), rel=0.2)
    periods = 2 * np.pi / np.abs(roots.imag)
    assert at_K.period_error == pytest.approx(np.std(periods), rel=0.2)
    assert at_zero.growth == pytest.approx(fit.values["r"]) and at_zero.period is None
    grow = "die out" if verdict == "stable" else "grow"
    assert f"small disturbances {grow} in oscillations" in str(found)
    assert "<table>" in found._repr_html_()


def test_two_states_and_names_of_their_own():
    model = dd.equation("p' = a * p - e * p * q; q' = c * p(t - tau) * q - d * q")
    start = {"a": 1.0, "e": 1.0, "c": 1.0, "d": 1.0, "b[0]": 1.2, "b[1]": 1, "tau": 0.3}
    truth = model.problem(start)
    t = np.linspace(0, 6, 60)
    noise = 0.02 * np.random.default_rng(2).normal(size=(60, 2))
    data = dd.Data(t, dd.solve(truth, 6.0)(t) + noise, names=("p", "q"))
    fit = dd.fit(model, data, parameters=start, optimizer=NEAR, **QUIET)
    found = fit.stability()
    values = fit.values
    inner = found.equilibria[0]
    expected = [values["d"] / values["c"], values["a"] / values["e"]]
    np.testing.assert_allclose(inner.x, expected, rtol=1e-8)
    assert inner.verdict == "unstable"  # A delay makes the predator overshoot.
    assert inner.period == pytest.approx(2 * np.pi, rel=0.2)
    assert found.names == ("p", "q")


def test_an_equation_of_time_has_no_equilibrium():
    t = np.linspace(0, 6, 40)
    data = dd.Data(t, np.sin(t) + 0.01 * np.cos(20 * t))
    model, start = dd.equation("x' = a * cos(t)"), {"a": 1.0, "b": 0.0}
    fit = dd.fit(model, data, parameters=start, optimizer=NEAR, **QUIET)
    with pytest.raises(ValueError, match="depends on the time t"):
        fit.stability()


def test_no_equilibrium_is_said():
    t = np.linspace(0, 6, 40)
    data = dd.Data(t, t + 0.01 * np.cos(20 * t))
    model, start = dd.equation("x' = a + 0 * x"), {"a": 0.9, "b": 0.1}
    fit = dd.fit(model, data, parameters=start, optimizer=NEAR, **QUIET)
    assert str(fit.stability()) == "No equilibrium was found near the trajectory."
