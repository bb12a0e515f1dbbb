"""Single fits: the path of Adam, every optimiser, and what can go wrong."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline

import ddefind as dd
from ddefind.paper import EXPERIMENTS
from support.fits import Options, as_descent, path_of
from support.repeats import mostly_slow


def numpy_loss(z, spline, T, n):
    """The delayed exponential's loss on the solver's nodes, in plain numpy; `z` may be
    complex, so that an imaginary step differentiates it exactly."""
    theta_0, theta_1, a, b, tau = z
    h = tau / n
    steps = int(np.ceil(T / h[0].real - 1e-9))
    x = [a * (i - n) * h + b for i in range(n + 1)]
    for i in range(steps):
        k1 = theta_0 * x[i + n] + theta_1 * x[i]
        k2 = theta_0 * (x[i + n] + h * k1) + theta_1 * x[i + 1]
        x.append(x[i + n] + h * (k1 + k2) / 2)
    x = np.array(x[n:])
    t = np.arange(steps + 1)[:, None] * h
    piece = np.clip(np.searchsorted(spline.x, t.real, "right") - 1, 0, None)
    piece = np.minimum(piece, len(spline.x) - 2)
    u = t - spline.x[piece]
    target = sum(spline.c[3 - p][piece] * u**p for p in range(4))
    cost = (x - target) ** 2
    return h * (cost.sum(0) - (cost[0] + cost[-1]) / 2)


def numpy_adam(z, loss, epochs, rate):
    path, m, v = [], np.zeros_like(z), np.zeros_like(z)
    for epoch in range(epochs + 1):
        path.append(z.copy())
        tilted = z[:, None] + 1e-30j * np.eye(len(z))
        slope = loss(tilted).imag / 1e-30
        m, v = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope**2
        now = rate * (0.1 + 0.9 * (1 + np.cos(np.pi * epoch / epochs)) / 2)
        up = (m / (1 - 0.9 ** (epoch + 1))) / (
            np.sqrt(v / (1 - 0.999 ** (epoch + 1))) + 1e-8
        )
        z = z - now * up
    return np.array(path)


START, CLEAN = EXPERIMENTS["exponential"].start, EXPERIMENTS["exponential"].clean


def test_path_of_adam_agrees_with_plain_numpy():
    how: Options = {"solver": dd.RK2(), "steps_per_delay": 10, "epochs": 500}
    how |= {"optimizer": dd.Adam(dd.Cosine(0.03))}
    how |= {"loss": dd.Integral(dd.L2(), nodes="solver")}
    fit = as_descent(dd.fit(START, CLEAN, **how))
    spline = CubicSpline(CLEAN.t, CLEAN.x[:, 0])
    expected = numpy_adam(
        fit.first, lambda z: numpy_loss(z, spline, 10.0, 10), 500, 0.03
    )
    assert path_of(fit).shape == expected.shape
    np.testing.assert_allclose(path_of(fit), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("model", mostly_slow(EXPERIMENTS, ("exponential", "hiv")))
@pytest.mark.parametrize(
    "make", [dd.Adam, dd.RMSProp, dd.SGD, dd.LBFGS], ids=lambda kind: kind.__name__
)
def test_every_optimiser_lowers_every_loss(model, make):
    # The gradients differ by ten orders of magnitude; plain descent follows their size.
    rates = {"exponential": 1e-5, "hiv": 1e-11}
    optimizer = make(rates.get(model, 1e-4)) if make is dd.SGD else make()
    experiment = EXPERIMENTS[model]
    steps: Options = {"solver": dd.RK2(), "steps_per_delay": experiment.steps_per_delay}
    fixed = {f"rhs.{name}": dd.Fixed() for name in experiment.fixed}
    how: Options = {"parameters": fixed, "optimizer": optimizer, "epochs": 40, **steps}
    fit = dd.fit(experiment.start, experiment.clean, **how)
    assert fit.status.ok
    assert fit.loss < 0.9 * fit.losses[0]
    loss, _ = dd.value_and_grad(fit.problem, fit.data, **steps)
    np.testing.assert_allclose(loss, fit.loss, rtol=1e-9)


def test_lbfgs_finds_noise_free_parameters():
    truth = EXPERIMENTS["exponential"].true
    data = dd.Data(t := np.linspace(0, 10, 101), dd.solve(truth, 10.0)(t))
    fit = dd.fit(START, data, optimizer=dd.LBFGS(), epochs=200)
    np.testing.assert_allclose(fit.best, [-2, -2, 1.5, 4, 1], rtol=1e-3)


def test_fixed_tied_and_bounded_parameters():
    parameters = {
        "theta_0": dd.Fixed(-2.0),
        "history.a": dd.Tied("b"),
        "tau": dd.Parameter(start=1.4, lower=1.2, upper=1.5),
    }
    fit = as_descent(dd.fit(START, CLEAN, parameters=parameters, epochs=200))
    assert fit.names == ("theta_1", "b", "tau")
    assert float(fit.problem.rhs.theta_0) == -2.0
    assert float(fit.problem.history.a[0]) == fit.values["b"]
    assert np.all((path_of(fit)[:, 2] > 1.2) & (path_of(fit)[:, 2] < 1.5))
    assert fit.first[2] == pytest.approx(1.4)


def test_random_start_by_seed():
    box = {"theta_1": dd.Parameter("random", lower=-3, upper=-1)}
    starts = [dd.fit(START, CLEAN, parameters=box, seed=s, epochs=1) for s in (1, 1, 2)]
    values = [as_descent(fit).first[1] for fit in starts]
    assert values[0] == values[1] != values[2]


def test_nothing_to_learn():
    names = dd.parameter_values(START)
    with pytest.raises(ValueError, match="nothing to learn"):
        dd.fit(START, CLEAN, parameters={n: dd.Fixed() for n in names})


def ramp(x, y, tau, t):
    return jnp.reshape(tau, (1,))


def fitted_to_a_line(rhs, start, slope, **options):
    """A fit of the delay alone."""
    t = np.linspace(0, 3, 31)
    problem, data = dd.Problem(rhs, dd.Constant(0.0), start), dd.Data(t, slope * t)
    return dd.fit(problem, data, **options)


@pytest.mark.parametrize("start, end", [(5.0, 0.05), (0.05, 5.0)])
@pytest.mark.parametrize("bounds", [{}, {"tau": dd.Parameter(lower=0.0)}])
def test_a_delay_that_moves_a_hundredfold_is_followed(start, end, bounds):
    how: Options = {"optimizer": dd.RMSProp(0.02), "epochs": 2000}
    fixed = {"b": dd.Fixed(), **bounds}
    fit = fitted_to_a_line(ramp, start, end, parameters=fixed, **how)
    assert np.all(path_of(fit) > 0)
    assert fit.values["tau"] == pytest.approx(end, rel=0.05)


def test_no_finite_loss_at_the_start():
    start = dd.Problem(dd.models.Exponential(900.0, 900.0), dd.Constant(1.0), 1.0)
    fit = dd.fit(start, CLEAN, epochs=9)
    assert fit.status is dd.Status.no_start
    assert "Epoch 0" in fit.message and "theta_0 = 900" in fit.message
    assert fit.to_dict()["loss"] is None


def test_an_exploding_step_is_halved_until_it_works():
    fit = dd.fit(START, CLEAN, optimizer=dd.SGD(1.0), epochs=300)
    assert np.isinf(fit.losses).any()
    assert fit.loss < fit.losses[0]
    assert np.isfinite(fit.best).all() and fit.values["tau"] > 0


def cliff(x, y, tau, t):
    """Falls off a cliff: no number below tau = 1, but a slope that leads there."""
    return jnp.where(tau < 1, jnp.nan, tau) * jnp.ones(1)


def test_a_fit_that_cannot_go_on_says_where():
    fit = fitted_to_a_line(cliff, 1.5, 0.2, parameters={"b": dd.Fixed()}, epochs=3000)
    assert fit.status is dd.Status.failed
    assert "tau = " in fit.message and "Epoch" in fit.message
    assert fit.values["tau"] == pytest.approx(1.0, abs=0.05)


def test_interrupt_keeps_the_best():
    seen = []

    def stop(now):
        seen.append(now)
        if now.epoch >= 30:
            raise KeyboardInterrupt

    start, data = EXPERIMENTS["logistic"].start, EXPERIMENTS["logistic"].clean
    fit = dd.fit(start, data, optimizer=dd.Adam(), progress=stop)
    assert fit.status is dd.Status.interrupted
    assert 30 <= fit.epochs < 500
    assert fit.loss == pytest.approx(np.min(fit.losses))
    assert seen[-1].epochs == 500 and seen[-1].tau > 0 and seen[-1].seconds_left > 0


def test_threshold_and_epochs():
    fit = as_descent(dd.fit(START, CLEAN, threshold=100.0))
    assert fit.status is dd.Status.threshold
    assert fit.losses[-1] < 100 <= fit.losses[-2]
    none = as_descent(dd.fit(START, CLEAN, epochs=0))
    assert len(none.losses) == 1 and np.array_equal(none.best, none.first)


def test_result_prints_and_saves(tmp_path):
    hiv = EXPERIMENTS["hiv"]
    known = {f"rhs.{name}": dd.Fixed() for name in hiv.fixed}
    fit = dd.fit(hiv.start, hiv.clean, parameters=known, epochs=20)
    text = str(fit)
    assert "omega[1]" in text and "Ran all its epochs" in text
    assert json.loads(json.dumps(fit.to_dict()))["parameters"]["tau"] > 0
    assert fit.solution(10.0).shape == (3,)
    fit.plot().savefig(tmp_path / "fit.png")
    assert (tmp_path / "fit.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(epochs=-1), "epochs"),
        (dict(optimizer=dd.Adam), "parentheses"),
        (dict(gradient=dd.Discrete), "parentheses"),
        (dict(parameters={"thta_0": 1.0}), "theta_0"),
        (dict(parameters={"tau": dd.Parameter(upper=1.0)}), "bounds"),
        (dict(parameters={"tau": -1.0}), "positive"),
        (dict(parameters={"tau": "long"}), "Parameter, Fixed, Tied"),
    ],
)
def test_bad_input(change, message):
    options: Options = {"optimizer": dd.Adam(), **change}
    with pytest.raises((ValueError, TypeError), match=message):
        dd.fit(START, CLEAN, **options)


def test_a_misspelt_option_is_named():
    logistic = EXPERIMENTS["logistic"]
    with pytest.raises(TypeError, match="no argument `epoch`. Did you mean 'epochs'"):
        dd.fit(logistic.true, logistic.clean, epoch=3)  # type: ignore
