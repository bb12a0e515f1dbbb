"""Searches that are done together find what each finds alone, whatever else is in the
batch."""

from dataclasses import replace

import numpy as np
import pytest

import ddefind as dd
from ddefind._fitting import many_searches
from ddefind._many_fits import search as many_search
from ddefind._many_fits.starts import Streams
from ddefind.paper import EXPERIMENTS
from support.fits import Options
from support.method_of_steps import method_of_steps
from support.repeats import mostly_slow

MODEL = dd.equation("x' = r * x * (1 - x(t - tau) / K)")


def growth(count, size=40, noise=0.05, seed=0):
    """Delayed logistic growth, not solved by the package."""

    def rhs(x, y, tau, t):
        return 1.2 * x * (1 - y[0] / 2.0)

    t = np.linspace(0, 12, size)
    clean = method_of_steps(rhs, [0.4], [1.0], 12.0, 1e-9)(t)[:, 0]
    random = np.random.default_rng(seed)
    return t, clean + noise * random.normal(size=(count, size))


def as_data(t, x):
    return [dd.Data(t, row) for row in x]


@pytest.fixture
def searched(monkeypatch):
    """How many data sets were searched together, call by call."""
    counts, plain = [], many_searches.search

    def counted(sets, starts):
        counts.append(len(sets))
        return plain(sets, starts)

    monkeypatch.setattr(many_searches, "search", counted)
    return counts


def test_data_from_scipy_are_fitted(searched):
    many = dd.fit_many(MODEL, as_data(*growth(12)))
    assert sum(searched) == 12
    truth = np.array([{"r": 1.2, "K": 2.0, "tau": 1.0}.get(n, 0.4) for n in many.names])
    errors = many.best - truth
    assert np.all(np.abs(errors.mean(axis=0)) < 4 * many.best.std(axis=0) / 12**0.5)
    assert many[3].with_intervals().assessment is not None


@pytest.mark.parametrize("name", mostly_slow(EXPERIMENTS, ("logistic",)))
def test_the_minima_are_those_of_single_fits(name, searched):
    experiment = EXPERIMENTS[name]
    sets = [experiment.data(0.1, repeat, exact=True) for repeat in range(4)]
    options: Options = dict(parameters=experiment.bounds)
    many = dd.fit_many(experiment.blank, sets, **options)
    assert sum(searched) == 4
    for number in (0, 3):
        alone = dd.fit(experiment.blank, sets[number], intervals=False, **options)
        assert many[number].steps_per_delay == alone.steps_per_delay
        np.testing.assert_allclose(many.loss[number], alone.loss, rtol=1e-8)
        if name != "hiv":  # Of its parameters the data determine products alone.
            np.testing.assert_allclose(many.best[number], alone.best, rtol=1e-3)
        assert many[number].status is many.statuses[number]


def test_a_fit_does_not_depend_on_the_others():
    t, x = growth(5)
    sets = as_data(t, x)
    whole = dd.fit_many(MODEL, sets, seed=3)
    part = dd.fit_many(MODEL, sets[2:4], seed=5)
    np.testing.assert_array_equal(whole.best[2:4], part.best)
    np.testing.assert_array_equal(whole.loss[2:4], part.loss)
    one = dd.fit_many(MODEL, sets[4], seed=7)
    np.testing.assert_array_equal(whole.best[4], one.best[0])


def test_times_gaps_and_deviations_may_differ():
    t, x = growth(4)
    holes = x[1].copy()
    holes[[3, 17, 18]] = np.nan
    sets = [dd.Data(t, x[0]), dd.Data(t, holes), dd.Data(t[:31], x[2][:31])]
    many = dd.fit_many(MODEL, sets)
    for number, data in enumerate(sets):
        alone = dd.fit(MODEL, data, intervals=False)
        np.testing.assert_allclose(many.best[number], alone.best, rtol=1e-4)
    sd = np.linspace(0.02, 0.2, len(t))
    known = dd.fit_many(MODEL, [dd.Data(t, each, sd=sd) for each in x])
    alone = dd.fit(MODEL, dd.Data(t, x[3], sd=sd), intervals=False)
    np.testing.assert_allclose(known.loss[3], alone.loss, rtol=1e-6)


def test_what_cannot_be_searched_together_is_fitted_alone(searched):
    t, x = growth(2, size=15)
    many = dd.fit_many(MODEL, as_data(t, x), noise="proportional")
    assert searched == [] and np.isfinite(many.loss).all()


def test_an_unusual_search_is_done_alone(searched):
    t, x = growth(2)
    x[1] = np.random.default_rng(5).normal(size=len(t))  # Nothing follows this.
    many = dd.fit_many(MODEL, as_data(t, x))
    alone = dd.fit(MODEL, dd.Data(t, x[1]), seed=1, intervals=False)
    assert sum(searched) == 2
    np.testing.assert_array_equal(many.best[1], alone.best)


def test_random_numbers_of_a_search_are_its_own():
    seeds = np.arange(2000)
    numbers = Streams(seeds)
    first, second = numbers.uniform(50), numbers.normal(50)
    np.testing.assert_array_equal(first[7], Streams(seeds[7:8]).uniform(50)[0])
    assert abs(first.mean() - 0.5) < 4 / (12 * first.size) ** 0.5
    assert abs(second.mean()) < 4 / second.size**0.5
    assert abs(second.std() - 1) < 0.01
    for pair in (
        (first, second),
        (first[:-1], first[1:]),
        (first[:, 1:], first[:, :-1]),
    ):
        assert abs(np.corrcoef(pair[0].ravel(), pair[1].ravel())[0, 1]) < 0.015


def test_steps_that_cannot_be_halved_end_no_batch(monkeypatch):
    """A set whose fit with shorter steps has no solution keeps the one that it has."""
    plain, refits = many_search.refine, []

    def refine(sets, record, theta, n, *others, **options):
        fits = plain(sets, record, theta, n, *others, **options)
        if others or options or theta.shape[1] > 1:
            return fits
        refits.append(len(sets))
        gram = fits.gram.copy()
        gram[0] = np.inf
        return replace(fits, gram=gram)

    monkeypatch.setattr(many_search, "STEP_TOLERANCE", 0.0)
    monkeypatch.setattr(many_search, "refine", refine)
    found = dd.fit_many(MODEL, as_data(*growth(4)), optimizer=dd.LeastSquares(starts=2))
    assert refits and np.isfinite(found.best).all() and np.isfinite(found.loss).all()
