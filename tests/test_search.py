"""How the best fit is found: curves, starts, conventions, minima, and hard cases."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline, make_smoothing_spline

import ddefind as dd
from ddefind._data.smoothing import (
    rough_noise,
    smooth,
    smoothed,
    smoothed_columns,
    spread,
)
from ddefind._search import explore as _explore, levenberg_marquardt as _levenberg
from ddefind._search.batches import RefinedFits, score, slow_frequency_limit
from ddefind._search.bounds import delays_to_try, spacing
from ddefind._search.starts import (
    draw_starts,
    match_starts,
    matched_starts,
    perturbed_starts,
)
from support.least_squares_problems import LOGISTIC, TRUTH, logistic_data, setup_of

MODEL = dd.equation(LOGISTIC)
DATA = logistic_data()


def plain(data=DATA, **parameters):
    return setup_of(MODEL.blank, data, parameters)


def curve_of(t, x):
    curve = smooth(dd.Data(t, x))
    assert curve is not None
    return curve


class TestCurve:
    t = np.sort(np.random.default_rng(3).uniform(0, 6, 60))
    x = np.sin(2 * t) + 0.1 * np.random.default_rng(4).normal(size=60)

    def test_it_is_a_smoothing_spline(self):
        curve = curve_of(self.t, self.x)
        inside = np.linspace(self.t[0], self.t[-1], 200)
        found = curve.splines[0](inside)
        # The same family: for some penalty scipy's is the same curve.
        penalties = 10 ** np.linspace(-5, 1, 241)
        off = [
            np.max(np.abs(make_smoothing_spline(self.t, self.x, lam=p)(inside) - found))
            for p in penalties
        ]
        assert min(off) < 2e-3
        assert np.sqrt(np.mean((found - np.sin(2 * inside)) ** 2)) < 0.06
        slope = curve.slope(inside)[:, 0]
        assert np.sqrt(np.mean((slope - 2 * np.cos(2 * inside)) ** 2)) < 0.5

    def test_it_is_the_natural_spline_through_its_values(self):
        found = curve_of(self.t, self.x).splines[0]
        same = CubicSpline(found.t, found.x, bc_type="natural")
        t = np.linspace(self.t[0], self.t[-1], 200).reshape(20, 10)
        np.testing.assert_allclose(found(t), same(t), atol=1e-10)
        np.testing.assert_allclose(found.slope(t), same(t, 1), atol=1e-9)

    def test_few_points_in_each_wave_are_no_straight_line(self):
        t = np.linspace(0, 40, 100)
        x = np.sign(np.sin(1.5 * t)) + 0.1 * np.random.default_rng(0).normal(size=100)
        assert np.std(curve_of(t, x).x(t)) > 0.8 * np.std(x)

    def test_it_stays_in_the_range_of_the_data(self):
        x = np.exp(-3 * self.t)
        found = curve_of(self.t, x).x(np.linspace(0, 6, 500))
        assert found.min() >= x.min() and found.max() <= x.max()

    def test_too_few_points_have_none(self):
        assert smooth(dd.Data([0, 1, 2, 2, 3.0], [1, 2, 1, 1, 2.0])) is None

    def test_noise_of_a_slow_curve(self):
        t = np.linspace(0, 1, 400)
        x = np.sin(t) + 0.1 * np.random.default_rng(0).normal(size=400)
        assert rough_noise(dd.Data(t, x))[0] == pytest.approx(0.1, rel=0.15)

    def test_spread_of_what_does_not_vary(self):
        x = np.array([[5.0, 0.0, np.nan]] * 3)
        np.testing.assert_array_equal(spread(dd.Data([0, 1, 2], x)), [5.0, 1.0, 1.0])


# Splines through many columns are those through each column alone.

RANDOM = np.random.default_rng(1)
TIMES = {
    "equal": np.linspace(0, 10, 101),
    "few": np.linspace(3, 4, 5),
    "random": np.sort(RANDOM.uniform(0, 10, 80)),
    "very uneven": np.concatenate([np.geomspace(1e-6, 1, 20), np.arange(2.0, 12.0)]),
}


@pytest.mark.parametrize("name", TIMES)
def test_each_column_has_its_own_spline(name):
    t = TIMES[name]
    x = np.sin(t)[:, None] + 0.1 * RANDOM.normal(size=(len(t), 70))
    many = smoothed_columns(t, x)
    for column in (0, 1, 63, 64, 69):
        alone = smoothed(t, x[:, column])
        np.testing.assert_allclose(many.x[:, column], alone.x, atol=1e-6)
        assert many.curvatures[column] == pytest.approx(alone.curvatures)
        place = np.linspace(t[0], t[-1], 33)
        np.testing.assert_allclose(
            many.slope(place)[:, column], alone.slope(place), rtol=1e-5, atol=1e-4
        )


def test_a_column_does_not_depend_on_the_others():
    t = TIMES["equal"]
    x = np.cos(t)[:, None] + 0.2 * RANDOM.normal(size=(len(t), 150))
    whole = smoothed_columns(t, x)
    for chosen in (slice(0, 3), slice(60, 131), slice(149, 150)):
        part = smoothed_columns(t, x[:, chosen])
        assert np.array_equal(part.x, whole.x[:, chosen])
        assert np.array_equal(part.second, whole.second[:, chosen])


class TestStarts:
    def test_delays_cover_their_range(self):
        setup = plain()
        theta = draw_starts(setup, 32, 4, np.random.default_rng(0))
        (tau,) = setup.model.free.delays
        delays = np.sort(theta[:, tau])
        low, high = 0.05 * spacing(DATA), 0.9 * DATA.T
        assert low <= delays[0] < 1.1 * low and 0.95 * high < delays[-1] <= high
        assert np.all(np.diff(delays) < 0.1 * high)

    def test_bounds_are_kept(self):
        setup = plain(
            r=dd.Parameter(lower=1.0, upper=3.0),
            K=dd.Parameter(lower=1.0),
            b=dd.Parameter(upper=0.2),
        )
        noise, random = rough_noise(DATA), np.random.default_rng(0)
        assert setup.has_curves
        theta = matched_starts(setup, 16, noise, random)
        again = perturbed_starts(setup, theta[:3], 16, noise, random)
        for each in (theta, again):
            assert np.all((each >= setup.lower) & (each <= setup.upper))
        assert theta.shape == again.shape == (16, 4)

    def test_the_users_start_is_the_first(self):
        given = dict(r=1.5, K=3.0, b=0.4, tau=0.7)
        setup = setup_of(MODEL.problem(given), DATA)
        theta = matched_starts(setup, 8, rough_noise(DATA), np.random.default_rng(0))
        np.testing.assert_array_equal(theta[0], list(given.values()))
        part = plain(r=1.5, tau=dd.Parameter(start=0.7, lower=0.5))
        drawn = draw_starts(part, 8, 1, np.random.default_rng(0))
        assert drawn[0, 0] == 1.5 and drawn[0, 3] == 0.7

    def test_matching_finds_what_the_slopes_say(self):
        setup = plain()
        theta = np.tile([1.0, 1.0, 1.0, 1.0], (4, 1))
        found = match_starts(setup, theta, rough_noise(DATA))
        np.testing.assert_allclose(found[0], list(TRUTH.values()), rtol=0.15)

    def test_no_curve_for_what_is_not_the_state(self):
        model = dd.equation(LOGISTIC, observe="seen = 2 * x")
        data = dd.Data(DATA.t, 2 * DATA.x, names=("seen",))
        assert setup_of(model.blank, data).curve is None


class TestConventions:
    def test_a_delay_may_leave_the_range_in_which_it_is_looked_for(self):
        setup = plain()
        low, high = delays_to_try(DATA, setup.lower[3], setup.upper[3])
        assert low == pytest.approx(0.05 * spacing(DATA))
        assert high == pytest.approx(0.9 * DATA.T)
        assert setup.lower[3] < low / 2 and setup.upper[3] == 2 * DATA.T
        wide = plain(tau=dd.Parameter(lower=0.01, upper=50.0))
        assert (wide.lower[3], wide.upper[3]) == (0.01, 50.0)
        assert delays_to_try(DATA, 0.01, 50.0) == (0.01, 0.9 * DATA.T)
        assert setup_of(MODEL.problem(TRUTH | dict(tau=20.0)), DATA).upper[3] >= 20.0

    def test_frequencies_are_positive_and_below_the_sampling_limit(self):
        periodic = MODEL.with_history("periodic")
        setup = setup_of(periodic.blank, DATA)
        at = setup.model.free.names.index("omega")
        assert setup.is_frequency[at]
        assert setup.lower[at] == pytest.approx(np.pi / DATA.T)
        assert setup.upper[at] == pytest.approx(np.pi / spacing(DATA))
        negative = {"omega": dd.Parameter(lower=-9.0, upper=-1.0)}
        setup = setup_of(periodic.blank, DATA, negative)
        assert (setup.lower[at], setup.upper[at]) == (-9.0, -1.0)

    def test_slow_histories_are_preferred_where_data_cannot_tell(self):
        setup = setup_of(MODEL.with_history("periodic").blank, DATA)
        theta = np.ones((4, len(setup.lower)))
        theta[:, setup.model.free.names.index("omega")] = [1.0, 10.0, 10.0, 80.0]
        fits = fits_at(setup, theta, [20.0, 15.0, 0.0, 1.0])
        # Better by 20: taken. By 19, but eight times as fast: not. By 5: not.
        order = np.argsort(score(setup, fits))
        assert order.tolist() == [2, 0, 1, 3]

    def test_short_delays_are_preferred_where_data_cannot_tell(self):
        setup = plain()
        theta = np.ones((4, len(setup.lower)))
        theta[:, setup.model.free.delays[0]] = [1.0, 1.9, 2.1, 9.0]
        fits = fits_at(setup, theta, [0.9, 0.8, 0.0, -0.3])
        # Better by 1.1: taken. By 0.9, but twice as long: not. 1.9 is no alias.
        order = np.argsort(score(setup, fits))
        assert order.tolist() == [3, 1, 0, 2]

    def test_no_fit_on_a_bound_is_preferred(self):
        setup = plain(r=dd.Parameter(lower=1.0, upper=2.0))
        theta = np.full((2, len(setup.lower)), 1.5)
        theta[:, setup.model.free.delays[0]] = [1.0, 3.0]
        assert np.argmin(score(setup, fits_at(setup, theta, [0.5, 0.0]))) == 0
        theta[0, 0] = 1.0
        assert np.argmin(score(setup, fits_at(setup, theta, [0.5, 0.0]))) == 1

    def test_second_starts_are_slow_as_often_as_fast(self):
        setup = setup_of(MODEL.with_history("periodic").blank, DATA)
        omega = setup.model.free.names.index("omega")
        found = np.full((3, len(setup.lower)), 5.0)
        random = np.random.default_rng(0)
        theta = perturbed_starts(setup, found, 240, rough_noise(DATA), random)
        slow = theta[:, omega] < slow_frequency_limit(setup, theta)[:, 0]
        assert 0.4 < np.mean(slow) < 0.75

    def test_start_outside_of_bounds(self):
        problem = MODEL.problem(TRUTH)
        own = setup_of(problem, DATA, {"r": dd.Parameter(lower=2.0, upper=3.0)})
        assert np.isnan(own.guess[0]) and own.guess[1] == 2.0
        wrong = {"r": dd.Parameter(start=1.0, lower=2.0, upper=3.0)}
        with pytest.raises(ValueError, match="between its bounds"):
            dd.fit(problem, DATA, parameters=wrong)


def fits_at(setup, theta, excess):
    """Fits whose chi-square exceeds the degrees of freedom by `excess`."""
    rows, ones = len(theta), np.ones(len(theta), int)
    gram = np.tile(np.eye(1 + theta.shape[1]), (rows, 1, 1))
    gram[:, 0, 0] = float(setup.freedom) + np.array(excess)
    status, rounding = np.full(rows, _levenberg.STEP), np.zeros(rows)
    rest = ones, status, 10 * ones, rounding, ones
    return RefinedFits(theta, gram, gram[:, :1, 0], *rest)


def same(one, two) -> bool:
    arrays = [
        (one.best, two.best),
        (one.search_result.best.gram, two.search_result.best.gram),
        (one.loss, two.loss),
        ([m.loss for m in one.minima], [m.loss for m in two.minima]),
        ([m.starts for m in one.minima], [m.starts for m in two.minima]),
    ]
    return all(np.array_equal(a, b) for a, b in arrays)


class TestResults:
    def test_the_same_seed_gives_the_same_numbers(self):
        one, again, other = (
            dd.fit(MODEL, DATA, seed=seed, intervals=False) for seed in (1, 1, 2)
        )
        assert same(one, again)
        np.testing.assert_allclose(one.best, other.best, rtol=1e-5)

    def test_many_fits_end_where_single_ones_do(self):
        sets = [logistic_data(seed=seed) for seed in range(3)]
        many = dd.fit_many(MODEL, sets, seed=5)
        for index, data in enumerate(sets):
            one = dd.fit(MODEL, data, seed=5 + index, intervals=False)
            # From other starts a search may end with steps that are half as long.
            same_steps = many[index].steps_per_delay == one.steps_per_delay
            rtol = 1e-10 if same_steps else 1e-5
            np.testing.assert_allclose(many[index].loss, one.loss, rtol=rtol)
            np.testing.assert_allclose(many[index].best, one.best, rtol=1e-5)

    def test_minima_are_distinct_and_the_best_is_first(self, tmp_path):
        fit = dd.fit(MODEL, DATA)
        losses = [minimum.loss for minimum in fit.minima]
        assert losses == sorted(losses)
        assert fit.starts >= 32
        assert 2 <= fit.minima[0].starts <= sum(m.starts for m in fit.minima)
        fit.plot_waterfall().savefig(tmp_path / "waterfall.png")
        assert (tmp_path / "waterfall.png").stat().st_size > 5_000

    def test_one_start_is_the_nearest_minimum(self):
        alone = dd.LeastSquares(starts=1)
        poor = MODEL.problem(r=0.2, K=3.0, b=0.5, tau=4.0)
        fit = dd.fit(poor, DATA, optimizer=alone, intervals=False)
        best = dd.fit(poor, DATA, intervals=False)
        assert fit.starts == 1 and len(fit.minima) == 1
        assert best.loss < 0.01 * fit.loss

    def test_interrupted(self):
        seen = []

        def stop(now):
            seen.append(now.phase)
            raise KeyboardInterrupt

        fit = dd.fit(MODEL, DATA, progress=stop)
        assert seen == ["first look"]
        assert fit.status is dd.Status.interrupted and not fit.status.ok
        assert np.isfinite(fit.best).all() and np.isfinite(fit.loss)

    def test_interrupted_before_there_is_anything(self, monkeypatch):
        def stop(*arguments, **options):
            raise KeyboardInterrupt

        monkeypatch.setattr(_explore, "refine", stop)
        with pytest.raises(KeyboardInterrupt):
            dd.fit(MODEL, DATA)

    def test_phases_are_reported_in_order(self):
        seen = []
        dd.fit(MODEL, DATA, progress=seen.append)
        phases = list(dict.fromkeys(now.phase for now in seen))
        assert phases[0] == "first look" and phases[-2:] == ["finer steps", "intervals"]
        # The last phase counts the ends of the intervals.
        ends = [(now.epoch, now.epochs) for now in seen if now.phase == "intervals"]
        assert ends[0] == (0, 2 * len(MODEL.names)) and ends[-1][0] == ends[-1][1]
        assert [now.fits_done for now in seen][-2:] == [0, 1]
        assert all(np.isfinite(now.loss) and now.tau > 0 for now in seen)


def test_another_round_where_the_best_was_reached_once():
    assert dd.fit(MODEL, DATA, intervals=False).starts == 32
    # No curve of this family follows the data: the search goes on, with ever more
    # starts.
    fit = dd.fit(MODEL, dd.Data(DATA.t, (DATA.t - 5) ** 2), intervals=False)
    assert fit.starts > 500
