"""A fit that gets its intervals later is the fit that is made with them at once."""

from dataclasses import replace

import numpy as np
import pytest

import ddefind as dd
from ddefind._inference import assessment
from support.fits import Options, in_no_time, simulated

DECAY = ("x' = -k * x(t - tau)", {"k": 1.2, "tau": 1.0, "b": 1.0})
GROWTH = ("x' = r * x * (1 - x(t - tau) / K)", {"r": 1.4, "K": 2, "tau": 1.2, "b": 1})
NETWORK = ("x' = NN(x(t - tau)) - g * x", {})
QUICK: Options = {"optimizer": dd.LeastSquares(starts=8)}


def record(model, seed=0, noise=0.1):
    text, truth = model
    problem = dd.equation(text).problem(truth)
    return simulated(problem, np.linspace(0, 15, 50), noise, seed, relative=True)


def said(fit):
    """Everything that a fit says, but for the time that it took."""
    fit = in_no_time(fit)
    return str(fit), fit.values, fit.intervals, fit.verdicts, fit.summary()


def check(model, data, **options):
    at_once = dd.fit(dd.equation(model[0]), data, **{**QUICK, **options})
    options["intervals"] = False
    later = dd.fit(dd.equation(model[0]), data, **{**QUICK, **options})
    assert later.assessment is None
    completed = later.with_intervals(options.get("level", 0.95))
    assert said(completed) == said(at_once)
    assert completed.with_intervals(options.get("level", 0.95)) is completed
    assert completed.seconds > later.seconds
    return at_once, later


@pytest.mark.parametrize("model", [DECAY, GROWTH], ids=["decay", "growth"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"level": 0.8},
        {"history": "auto"},
        {"history": "data"},
        {"noise": "proportional"},
        {"optimizer": dd.MultipleShooting(starts=4)},
    ],
    ids=lambda options: "-".join(map(str, options)),
)
def test_of_one_data_set(model, options):
    check(model, record(model), **options)


def test_of_a_study():
    sets = [record(GROWTH, seed) for seed in range(2)]
    check(GROWTH, [dd.Experiment(data, label=n) for data, n in zip(sets, "ab")])


def test_of_many_data_sets():
    sets = [record(GROWTH, seed, noise=0.3) for seed in range(3)]
    model = dd.equation(GROWTH[0])
    at_once = dd.fit_many(model, sets, intervals=True, **QUICK)
    for one, other in zip(at_once, dd.fit_many(model, sets, **QUICK)):
        assert said(one) == said(other.with_intervals())


def test_of_a_descent():
    """It has no intervals to leave out."""
    model, data = dd.equation(GROWTH[0]), record(GROWTH)
    options = {"optimizer": dd.Adam(), "epochs": 20, "parameters": GROWTH[1]}
    fits = [dd.fit(model, data, intervals=i, **options) for i in (None, False)]
    one, other = (str(replace(fit, seconds=0.0)) for fit in fits)
    assert one == other


def test_intervals_that_find_a_better_fit_move_to_it(monkeypatch):
    """The signs of a frequency fit about as well, and the search took the worse one:
    as if a profile had come across the other."""
    text = "x' = -k * x(t - tau) + cos(w * t) + 0.004 * w"
    truth, model = {"k": 0.9, "w": 0.72, "tau": 0.6, "b": 0.5}, dd.equation(text)
    data = record((text, truth), noise=0.05)
    near = {"optimizer": dd.LeastSquares(starts=1), "intervals": False}
    better, worse = (
        dd.fit(model, data, parameters={"w": sign * 0.72}, **near) for sign in (1, -1)
    )
    assert better.loss < worse.loss and worse.values["w"] < 0

    look_around = assessment._look_around

    def look_and_find(uncertainty, *rest):
        found = look_around(uncertainty, *rest)
        first, *others = found.profiles
        if uncertainty.theta[1] < 0:
            r, theta = np.append(first.r, -1.9), np.vstack([first.theta, better.best])
            values = np.append(first.values, better.best[0])
            first = replace(first, r=r, theta=theta, values=values)
        return found._replace(profiles=[first, *others])

    monkeypatch.setattr(assessment, "_look_around", look_and_find)
    searched = replace(worse.search_result, starts=2)
    found = worse.at(searched).with_intervals()
    assert found.values == pytest.approx(better.values, rel=1e-4)
    assert found.loss == pytest.approx(better.loss, rel=1e-6) and found.status.ok
    np.testing.assert_allclose(found.fitted, better.fitted, rtol=1e-3)
    assert found.intervals["w"][0] < better.values["w"] < found.intervals["w"][1]
    # A search from one start is asked for the nearest minimum, and stays there.
    assert worse.with_intervals().values == worse.values
