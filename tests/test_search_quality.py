"""The study of the search: its bounds, its measure of a fit, and a part of it again."""

import numpy as np
import pytest
from studies.search_quality import delays, models
from studies.search_quality.best_known import Record, best_known, chi_square
from studies.search_quality.cramer_rao import standard_deviations
from studies.search_quality.integrate import integrate

import ddefind as dd

DECAY = "x' = -k * x(t - tau)"
TRUTH = {"k": 0.8, "tau": 1.0, "b": 2.0}
TIMES = np.linspace(0.0, 15.0, 40)


def decay(seed, sd=None):
    exact = integrate(DECAY, TRUTH, TIMES)
    assert exact is not None
    noise = 0.05 * np.random.default_rng(seed).standard_normal(exact.shape)
    return dd.Data(TIMES, exact + noise, sd=sd)


def test_the_bound_is_the_standard_error_of_a_fit():
    fit = dd.fit(dd.equation(DECAY), decay(0, 0.05), intervals=False, progress=False)
    found = dict(zip(fit.names, np.sqrt(np.diag(fit.uncertainty.covariance))))
    bound = standard_deviations(DECAY, TRUTH, TIMES, np.array([0.05]))
    for name, sd in bound.items():
        assert found[name] == pytest.approx(sd, rel=0.1)


@pytest.mark.parametrize("sd", [None, 0.05])
@pytest.mark.slow
def test_a_minimum_elsewhere_has_a_larger_chi_square(sd):
    data, model = decay(1, sd), dd.equation(DECAY)
    best = best_known(Record(model, data, TRUTH, {}), random_starts=16)
    free = dd.fit(model, data, intervals=False, progress=False)
    held = {"k": dd.Fixed(0.7)}
    fixed = dd.fit(model, data, parameters=held, intervals=False, progress=False)
    assert chi_square(free) == pytest.approx(best, abs=0.01)
    assert chi_square(fixed) > best + 10


@pytest.mark.parametrize("name", delays.SYSTEMS)
def test_records_determine_even_a_short_delay(name):
    system = delays.SYSTEMS[name]
    assert [record.intervals for record in system.records][::4] == [0.2, 5.0]
    assert all(16 <= record.count <= 60 for record in system.records)
    record = system.records[0]
    tau = record.intervals * system.spacing
    values = system.values | record.values | {"tau": tau}
    times = system.spacing * np.arange(record.count)
    exact = integrate(system.text, values, times)
    assert exact is not None
    noise = record.noise * np.std(exact, axis=0)
    bound = standard_deviations(system.text, values, times, noise)["tau"]
    assert bound < 0.35 * tau


def test_a_part_of_the_study_again():
    found = models.measure(2, 0)
    assert found["found"]
    assert "100.0%" in models.summary([found])
    assert not models.failures([found])
