"""Characteristic roots and stability with distributed, neutral and state-dependent
delays: against chains of linear equations, Lambert's W and the argument principle."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import lambertw

import ddefind as dd
from ddefind._inference.characteristic_roots import (
    SlopeTerm,
    StateTerm,
    essential_rate,
    near_root,
    rightmost_roots,
)
from support.general_fits import MODELS, general_fit
from support.kernel_reference import distribution
from support.uncertainties import hand_made_stability
from test_stability import zeros_beyond


def g(term, z):
    """The Laplace transforms as they are printed in books."""
    if isinstance(term, StateTerm):
        return np.exp(-z * term.tau)
    if isinstance(term, SlopeTerm):
        return z * np.exp(-z * term.tau)
    if isinstance(term, dd.GammaDelay):
        b = term.shape / term.mean
        return (b / (z + b)) ** term.shape
    ends = np.exp(-z * term.low) - np.exp(-z * term.high)
    return ends / (z * (term.high - term.low))


def chain_roots(A, B, mean, k):
    """The eigenvalues of the linear chain that a gamma distribution with the integer
    shape k is, in decreasing order."""
    d, b = len(A), k / mean
    M = np.kron(np.eye(k + 1, k=-1) - np.eye(k + 1), b * np.eye(d))
    M[:d] = 0
    M[:d, :d], M[:d, -d:] = A, B
    roots = np.linalg.eigvals(M)
    return roots[np.argsort(-roots.real)]


@pytest.mark.parametrize("seed", range(12))
def test_a_gamma_distribution_is_a_chain_if_its_shape_is_an_integer(seed):
    random = np.random.default_rng(seed)
    d, k, mean = (
        random.integers(1, 4),
        int(random.integers(1, 30)),
        random.uniform(0.2, 5),
    )
    A = random.normal(size=(d, d)) * 10 ** random.uniform(-1, 0.5)
    B = random.normal(size=(d, d)) * 10 ** random.uniform(-1, 0.7)
    exact = chain_roots(A, B, mean, k)
    found = rightmost_roots(A, [B], [dd.GammaDelay.of([mean, float(k)])], 4)
    # A shape that is no integer has the same roots, to the right of its rate.
    close = rightmost_roots(A, [B], [dd.GammaDelay.of([mean, k * (1 + 1e-13)])], 4)
    right = exact[: len(close)][exact.real[: len(close)] > -k / mean]
    assert len(right) >= 1 and np.allclose(np.real(close[: len(right)]), right.real)
    assert np.allclose(np.abs(np.imag(close[: len(right)])), np.abs(right.imag))
    if k <= 10:
        np.testing.assert_allclose(np.real(found), exact[:4].real, rtol=1e-7, atol=1e-9)


def random_equation(seed):
    """Up to three states and delayed terms of all kinds. The slopes are small enough
    for the equation to be judged."""
    random = np.random.default_rng(seed)
    d, k = int(random.integers(1, 4)), int(random.integers(1, 4))
    terms = []
    for kind in random.integers(4, size=k):
        m = 10 ** random.uniform(-1, 0.7)
        shape, low = 10 ** random.uniform(0.01, 1.5), m * random.uniform(0, 0.9)
        every = (
            dd.GammaDelay.of([m, shape]),
            dd.UniformDelay.of([low, m]),
            SlopeTerm(m),
            StateTerm(m),
        )
        terms.append(every[kind])
    A = random.normal(size=(d, d)) * 10 ** random.uniform(-1, 0.7)
    B = random.normal(size=(k, d, d)) * 10 ** random.uniform(-1, 0.7, (k, 1, 1))
    slopes = [isinstance(term, SlopeTerm) for term in terms]
    size = np.max(np.abs(np.linalg.eigvals(np.abs(B[slopes]).sum(axis=0))))
    B[slopes] *= random.uniform(0.05, 0.7) / max(size, 1e-9)
    return A, B, terms


def count_right_of(A, B, terms, sigma, radius):
    """The number of roots to the right of `sigma`, by the argument principle."""
    up = 1j * np.linspace(1e-9, radius, 4000)
    arc = radius * np.exp(1j * np.linspace(np.pi / 2, 0, 2000))

    def angle(z):
        delayed = sum(g(term, z)[:, None, None] * b for term, b in zip(terms, B))
        return np.angle(np.linalg.det(z[:, None, None] * np.eye(len(A)) - A - delayed))

    return zeros_beyond(angle, sigma + np.concatenate([up, arc]), 0.5)


@pytest.mark.parametrize("seed", [0, 2, 3, 5, 7, 8, 9, 10, 14, 20, 22, 23, 42, 43, 47])
def test_no_root_is_missed(seed):
    """To the right of the middle between each two real parts, the argument principle
    counts what was found."""
    A, B, terms = random_equation(seed)
    found = rightmost_roots(A, B, terms)
    assert np.all(np.real(found) > essential_rate(A, B, terms))
    for root in found:
        delayed = sum(g(term, root) * b for term, b in zip(terms, B))
        delta = root * np.eye(len(A)) - A - delayed
        size = np.abs(root) + np.linalg.norm(A) + np.linalg.norm(delayed)
        assert np.linalg.svd(delta, compute_uv=False)[-1] < 1e-9 * size
    parts = np.unique(np.real(found).round(8))[::-1]
    middles = 0.5 * (parts[1:] + parts[:-1])
    for sigma in middles[parts[:-1] - parts[1:] > 0.02 * (1 + abs(parts[0]))]:
        count = count_right_of(A, B, terms, sigma, radius=200.0)
        assert count == pytest.approx(np.sum(np.real(found) > sigma), abs=0.01)


def test_what_is_forgotten_slowly_stands_for_roots():
    """x' = -2 x - 5 y with the mean y under a gamma distribution of mean 1."""
    A, B = [[-2.0]], [[[-5.0]]]
    exact = rightmost_roots(A, B, [dd.GammaDelay.of([1.0, 1.0])])
    np.testing.assert_allclose(exact, np.roots([1, 3, 7]), rtol=1e-12)
    (only,) = rightmost_roots(A, B, [dd.GammaDelay.of([1.0, 1.2])])
    assert only == pytest.approx(-1.2)
    moved = near_root(A, B, [dd.GammaDelay.of([1.001, 1.2])], -1.2 + 0j)
    assert moved == pytest.approx(-1.2 / 1.001)


def test_the_roots_of_a_neutral_equation_come_near_a_line():
    """x' = a x + c x'(t - 1): far up, lambda is near log(c) + 2 pi i n."""
    a, c = -0.5, 0.6
    terms = [SlopeTerm(1.0)]
    assert essential_rate([[a]], [[[c]]], terms) == pytest.approx(np.log(c))
    found = rightmost_roots([[a]], [[[c]]], terms)
    residual = found - a - c * found * np.exp(-found)
    assert np.all(np.abs(residual) < 1e-9) and np.all(np.real(found) > np.log(c))
    # Newton's method from every point of the line finds no other root so far right.
    z = np.log(c) + 1j * np.linspace(0, 100, 400)
    for _ in range(50):
        step = (z - a - c * z * np.exp(-z)) / (1 - c * (1 - z) * np.exp(-z))
        z = z - step / np.maximum(1, np.abs(step))
    brute = np.unique(z[np.abs(step) < 1e-9].round(7))
    brute = brute[np.imag(brute) >= 0]
    brute = brute[np.argsort(-np.real(brute))]
    upper = found[np.imag(found) >= 0]
    np.testing.assert_allclose(upper, brute[: len(upper)], atol=1e-6)
    # Two delays, whose rate solves sum |c| exp(-sigma tau) = 1.
    terms, C = [SlopeTerm(1.0), SlopeTerm(2.0)], [[[0.3]], [[-0.2]]]
    rate = -np.log((-0.3 + np.sqrt(0.3**2 + 4 * 0.2)) / (2 * 0.2))
    assert essential_rate([[a]], C, terms) == pytest.approx(rate)


def test_a_delay_of_zero_is_none():
    found = rightmost_roots([[-3.0]], [[[1.0]], [[0.5]]], [StateTerm(0), StateTerm(1)])
    np.testing.assert_allclose(found, rightmost_roots([[-2.0]], [[0.5]], 1.0))


# The stability of fitted equations.


def state_root(birth, a, d):
    """The rightmost root at the positive equilibrium of the model of the state."""
    x = np.sqrt(birth / d - 1)
    tau, A = a / (1 + x), -birth * 2 * x**2 / (1 + x**2) ** 2 - d
    return A + lambertw(d * tau * np.exp(-A * tau)) / tau


def test_a_delay_of_the_state_has_its_value_at_the_equilibrium():
    text, values = MODELS["state"]
    problem = dd.equation(text).problem(values)
    assert set(dd.parameter_values(problem)) == {"birth", "a", "d", "b"}
    found = hand_made_stability(problem, 0.3, 1.4)
    first = found.equilibria[0]
    np.testing.assert_allclose(first.x, np.sqrt(values["birth"] / values["d"] - 1))
    point = np.array([values[name] for name in ("birth", "a", "d")])
    assert first.growth == pytest.approx(state_root(*point).real, rel=1e-9)
    slopes = [
        (state_root(*(point + step)) - state_root(*(point - step))).real / 2e-6
        for step in 1e-6 * np.eye(3)
    ]
    assert first.growth_error == pytest.approx(0.01 * np.linalg.norm(slopes), rel=1e-4)
    # Below -1 the delay is negative: the equilibrium there is left out, and said.
    (note,) = found.notes
    assert "x = -1.225 cannot be judged: a delay is negative" in note
    assert str(found).endswith(note)


def test_the_delay_itself_may_stand_in_the_equation():
    """Its change with the state belongs to the derivative for the state."""

    def rhs(x, y, tau, t, c=3.0, m=0.4):
        return c * jnp.exp(-m * tau) * y - x**2

    tau = dd.Delay(lambda t, x: 1 + x[0] / 2)
    problem = dd.Problem(rhs, dd.Constant(1.0), tau)
    first = hand_made_stability(problem, 0.8, 1.5).equilibria[0]
    x = first.x.item()
    made = 3 * np.exp(-0.4 * (1 + x / 2))
    assert x == pytest.approx(made)
    A, tau = -0.4 * 0.5 * made * x - 2 * x, 1 + x / 2
    root = A + lambertw(made * tau * np.exp(-A * tau)) / tau
    assert first.growth == pytest.approx(root.real, rel=1e-9)


@pytest.mark.parametrize("kind", ["gamma", "neutral"])
@pytest.mark.slow
def test_fits_with_distributed_and_neutral_delays(kind):
    """At x = K, disturbances obey u' = -r y, or u' = -r (y + c y')."""
    fit = general_fit(kind)
    at_K, at_zero = fit.stability().equilibria
    v = fit.values
    np.testing.assert_allclose(at_K.x, v["K"], rtol=1e-8)
    assert at_zero.growth == pytest.approx(v["r"])
    terms, B = [dd.GammaDelay.of([v.get("m", 1), v.get("k", 1)])], [[[-v["r"]]]]
    if kind == "neutral":
        terms = [StateTerm(v["tau"]), SlopeTerm(v["tau"])]
        B = [[[-v["r"]]], [[-v["r"] * v["c"]]]]
    root = rightmost_roots([[0.0]], B, terms)[0]
    assert abs(root - sum(g(t, root) * b[0][0] for t, b in zip(terms, B))) < 1e-9
    assert at_K.growth == pytest.approx(root.real, rel=1e-7)
    assert at_K.period == pytest.approx(2 * np.pi / abs(root.imag), rel=1e-7)
    assert 0 < at_K.growth_error < 1


def test_a_neutral_equation_with_large_coefficients_is_not_judged():
    model = dd.equation("x' = 1 - x + c * x'(t - tau)", history=1.0)
    found = hand_made_stability(model.problem(c=-1.2, tau=0.5), 0.5, 1.5)
    assert found.equilibria == ()
    assert str(found) == (
        "The stability of x = 1 cannot be judged: the equation is neutral, and the "
        "coefficients of delayed slopes add up to 1.2 there. From 1 on, disturbances "
        "of any high frequency may grow."
    )


@pytest.mark.parametrize("delay", ["1 + sin(t) / 2", "where(t > 3, a, 2 * a)"])
def test_a_delay_of_time_has_no_roots(delay):
    model = dd.equation(f"x' = a - x(t - ({delay}))", history=1.0)
    with pytest.raises(ValueError, match="A delay depends on the time t"):
        hand_made_stability(model.problem(a=1.0), 0.5, 1.5)


_DISTRIBUTED = "x' = r * x * (1 - delay(x, {}) / K)"


@pytest.mark.parametrize(
    "kind, changes",
    [
        ("gamma", {}),
        ("neutral", {"c": 0.2}),
        ("lognormal(0.9, 0.5)", {}),
        ("weibull(0.9, 1.6)", {}),
        ("inverse_gaussian(0.9, 0.5)", {}),
    ],
)
def test_disturbances_decay_as_the_roots_say(kind, changes):
    """The largest and smallest values of the solution after a small disturbance."""
    default = _DISTRIBUTED.format(kind), {"r": 1.2, "K": 2.0}
    text, truth = MODELS.get(kind, default)
    problem = dd.equation(text).problem(truth | {"b": 2.0 * (1 + 1e-3)} | changes)
    t = np.linspace(3, 12, 3001)
    u = np.asarray(dd.solve(problem, 12.0, dd.Tsit5(rtol=1e-11))(t))[:, 0] - 2.0
    size = np.abs(u)
    peaks = 1 + np.flatnonzero((size[1:-1] > size[:-2]) & (size[1:-1] > size[2:]))
    growth = np.polyfit(t[peaks], np.log(size[peaks]), 1)[0]
    found = hand_made_stability(problem, 1.5, 2.5).equilibria[0]
    assert growth == pytest.approx(found.growth, rel=0.02)
    assert 2 * np.mean(np.diff(t[peaks])) == pytest.approx(found.period, rel=0.02)


@pytest.mark.parametrize(
    "tau",
    [
        dd.LogNormalDelay.of([1.5, 0.7]),
        dd.WeibullDelay.of([1.5, 0.7]),
        dd.WeibullDelay.of([1.5, 2.5]),
        dd.InverseGaussianDelay.of([1.5, 0.7]),
        dd.InverseGaussianDelay.of([1.5, 3.0]),
    ],
)
def test_kernels_have_the_transforms_of_scipy(tau):
    """On the right they do not depend on where the density is cut off."""
    law = distribution(tau.word, *(getattr(tau, name) for name in tau.numbers))
    root, z = rightmost_roots([[0.1]], [[[0.8]]], [tau])[0].real, 0.2 + 1.3j
    values = [
        law.expect(lambda s: np.exp(-root * s)),
        law.expect(lambda s: np.exp(-z * s).real, limit=500),
        law.expect(lambda s: np.exp(-z * s).imag, limit=500),
    ]
    assert root == pytest.approx(0.1 + 0.8 * values[0], abs=1e-7)
    value, slope = tau.transform(z)
    assert value == pytest.approx(values[1] + 1j * values[2], abs=1e-7)
    change = tau.transform(z + 1e-5)[0] - tau.transform(z - 1e-5)[0]
    assert slope == pytest.approx(change / 2e-5, rel=1e-4)
    assert abs(value) <= tau.bound(z.real, z.imag) * (1 + 1e-9)
