"""The paper's experiments: their data, their protocols, their results."""

import json

import numpy as np
import pytest
from studies.paper_page import __main__ as paper_page

import ddefind as dd
from ddefind.paper._experiments import EXPERIMENTS, NOISE, PROTOCOLS, PublishedAdam
from ddefind.paper._output import markdown_table, trajectory_figure, write_tables
from ddefind.paper._run import (
    LevelResults,
    PaperError,
    Plan,
    ResultsFolder,
    load_results,
    reproduce,
    run_model,
)
from support.paper_results import made_up

PUBLISHED = PROTOCOLS["published"]
KEYS = {
    *("model", "noise", "protocol", "repeats", "seed", "parameters", "true"),
    *("estimates", "mean", "sd", "rmse", "cramer_rao", "paper_mean", "paper_sd", "z"),
    *("statuses", "seconds"),
}


@pytest.fixture(scope="module")
def exponential():
    """A small real run."""
    return run_model(EXPERIMENTS["exponential"], PUBLISHED, (0.1, 0.3), repeats=3)


@pytest.mark.parametrize(
    "model, points, deviations",
    [
        ("exponential", 101, [1.0028]),
        ("logistic", 101, [0.65026]),
        ("enso", 101, [0.91863]),
        ("cheyne", 121, [0.2353]),
        ("hiv", 101, [0.073821, 0.17677, 0.87165]),
    ],
)
def test_data_are_the_papers(model, points, deviations):
    experiment = EXPERIMENTS[model]
    assert experiment.clean.x.shape == (points, len(deviations))
    spread = np.std(experiment.clean.x, axis=0, ddof=1)
    np.testing.assert_allclose(spread, deviations, rtol=1e-4)
    for noise in NOISE:
        table = experiment.published(noise)
        assert table is not None
        assert len(table.mean) == len(table.sd) == len(experiment.parameters)
    assert len(experiment.cramer_rao(0.1)) == len(experiment.parameters)
    known = dd.parameter_values(experiment.true)
    assert set(experiment.names.values()) | set(experiment.fixed) == set(known)


def test_noise_has_the_stated_size_for_each_component():
    experiment = EXPERIMENTS["hiv"]
    noise = [experiment.data(0.3, k).x - experiment.clean.x for k in range(40)]
    expected = 0.3 * np.std(experiment.clean.x, axis=0, ddof=1)
    np.testing.assert_allclose(np.std(noise, axis=(0, 1)), expected, rtol=0.05)


def test_data_depend_on_model_noise_repeat_and_seed_only():
    data = EXPERIMENTS["exponential"].data
    first = data(0.3, 2, 5).x
    np.testing.assert_array_equal(first, data(0.3, 2, 5).x)
    noise = first - EXPERIMENTS["exponential"].clean.x
    logistic = EXPERIMENTS["logistic"]
    other = [
        data(0.1, 2, 5).x - EXPERIMENTS["exponential"].clean.x,
        data(0.3, 3, 5).x - EXPERIMENTS["exponential"].clean.x,
        data(0.3, 2, 6).x - EXPERIMENTS["exponential"].clean.x,
        logistic.data(0.3, 2, 5).x - logistic.clean.x,
    ]
    for values in other:
        assert abs(np.corrcoef(values[:, 0], noise[:, 0])[0, 1]) < 0.4


def test_only_cheyne_and_hiv_start_at_the_first_point():
    for model, experiment in EXPERIMENTS.items():
        data = experiment.data(0.9, 0)
        start = np.asarray(experiment.start_for(data).history.b)
        assert np.array_equal(start, data.x[0]) == (model in ("cheyne", "hiv"))


def test_protocols_differ_where_they_should():
    descents = {name: p for name, p in PROTOCOLS.items() if not p.is_ours}
    rates = {name: p.settings_for("hiv").rate for name, p in descents.items()}
    assert set(PROTOCOLS) - set(descents) == {"best"}
    assert rates == {"published": 0.1, "stated": 0.03, "corrected": 0.1}
    costs = {name: type(p.settings_for("enso").cost) for name, p in descents.items()}
    assert costs == {"published": dd.L1, "stated": dd.L2, "corrected": dd.L1}
    routes = {n: type(p.settings_for("enso").gradient) for n, p in descents.items()}
    assert routes["corrected"] is dd.Adjoint and routes["stated"] is dd.Published


def test_a_delay_at_the_limit_stays_there():
    transformation = PublishedAdam(dd.Cosine(0.03), 0.01).transformation(100)
    z = np.array([0.02, 0.02])
    state = transformation.init(z)
    for slope in (1.0, 1.0, -1.0, -1.0):
        step, state = transformation.update(np.full(2, slope), state, z)
        z = z + np.asarray(step)
    assert z[1] == pytest.approx(0.01, abs=1e-12)
    assert z[0] < 0


def test_a_part_of_the_levels_gives_the_same_estimates(exponential):
    (alone,) = run_model(EXPERIMENTS["exponential"], PUBLISHED, (0.3,), repeats=3)
    both = exponential[1]
    assert alone.noise == both.noise == 0.3
    np.testing.assert_allclose(alone.estimates, both.estimates, rtol=1e-3)


def test_records_hold_what_they_say(exponential):
    low, high = exponential
    assert (low.noise, high.noise) == (0.1, 0.3)
    assert low.estimates.shape == (3, 5)
    assert low.statuses == {"finished": 3}
    np.testing.assert_array_equal(low.true, [-2, -2, 1, 1.5, 4])
    np.testing.assert_allclose(low.mean, low.true, rtol=0.1)
    error = low.estimates - low.true
    np.testing.assert_allclose(low.rmse, np.sqrt(np.mean(error**2, axis=0)))
    z = (low.mean - low.paper_mean) / np.sqrt(low.sd**2 / 3 + low.paper_sd**2 / 20)
    np.testing.assert_allclose(low.z, z)
    assert low.rms_z() == pytest.approx(np.sqrt(np.mean(z**2)))
    assert low.rms_z(without=low.experiment.parameters[1:]) == pytest.approx(abs(z[0]))


def test_records_survive_json(exponential):
    others = (made_up("hiv"), made_up(noise=0.2), made_up(repeats=1))
    for record in (*exponential, *others):
        saved = json.loads(json.dumps(record.to_dict(), allow_nan=False))
        assert set(saved) == KEYS
        assert len(saved["estimates"]) == record.repeats
        assert LevelResults.from_dict(saved).to_dict() == saved


def test_what_is_not_available_is_null():
    unknown = made_up(noise=0.2).to_dict()
    assert set(unknown["paper_mean"]) == set(unknown["z"]) == {None}
    assert unknown["cramer_rao"][0] == pytest.approx(0.2 * 2.199)
    assert set(made_up(repeats=1).to_dict()["sd"]) == {None}
    assert np.isnan(made_up(noise=0.2).rms_z())
    hiv = made_up("hiv").to_dict()
    silent = [hiv["parameters"].index(f"{p}[{c}]") for p, c in (("A", "T*"),)]
    assert hiv["cramer_rao"][silent[0]] is None and hiv["z"][silent[0]] is None


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"models": ("hvi",)}, "Did you mean 'hiv'"),
        ({"protocol": "printed"}, "Unknown protocol"),
        ({"noise": (0.1, -0.1)}, "from 0 on, but got -0.1"),
        ({"noise": (float("nan"),)}, "got nan"),
        ({"repeats": 0}, "`repeats` must be at least 1, but got 0"),
        ({"seed": -1}, "`seed` must be at least 0"),
        ({"models": ()}, "`models` must not be empty"),
    ],
)
def test_plans_are_checked(settings, message):
    with pytest.raises(PaperError, match=message):
        Plan(**settings)


def test_a_plan_names_each_thing_once():
    plan = Plan(models=("hiv", "hiv"), noise=(0.1, 0.1, 0.3))
    assert plan.models == ("hiv",) and plan.noise == (0.1, 0.3)


def test_damaged_results_are_refused_and_left_alone(tmp_path):
    file = tmp_path / "results.json"
    file.write_text('[{"model": "exponential"')
    with pytest.raises(PaperError, match="cannot be read as results"):
        ResultsFolder(tmp_path, Plan())
    assert file.read_text() == '[{"model": "exponential"'


def test_a_failing_model_does_not_lose_the_others(tmp_path, monkeypatch):
    def fake(experiment, protocol, noise, repeats, seed, *, progress):
        if experiment.model == "enso":
            raise RuntimeError("out of memory")
        return [made_up(experiment.model, level, repeats, seed) for level in noise]

    monkeypatch.setattr("ddefind.paper._run.run_model", fake)
    plan = Plan(("logistic", "enso", "hiv"), repeats=4)
    results = ResultsFolder(tmp_path / "out", plan)
    with pytest.raises(RuntimeError, match="out of memory"):
        for _ in reproduce(results):
            pass
    kept = {record.model for record in load_results(tmp_path / "out/results.json")}
    assert "enso" not in kept
    # The same plan goes on with what is missing.
    monkeypatch.setattr(
        "ddefind.paper._run.run_model",
        lambda e, p, noise, repeats, seed, *, progress: [
            made_up(e.model, level, repeats, seed) for level in noise
        ],
    )
    again = ResultsFolder(tmp_path / "out", results.plan)
    done = [model for model, _ in reproduce(again)]
    assert sorted(done) == sorted({"logistic", "enso", "hiv"} - kept)
    assert [r.model for r in again.levels[::3]] == ["logistic", "enso", "hiv"]


def test_tables_show_every_parameter(tmp_path, exponential):
    text = markdown_table(exponential[0])
    assert text.count("\n") == 6
    assert "| theta_0 | -2 | -2.0324 ± 0.0291 |" in text
    path = write_tables([*exponential, made_up("hiv", repeats=3)], tmp_path)
    written = path.read_text()
    assert written.count("## ") == 3
    assert r"A[T\*]" in written
    assert "nan" not in written


def test_figures_show_true_target_and_predicted(exponential):
    (axes,) = trajectory_figure(exponential[1]).axes
    target, data, true, predicted = (line.get_ydata() for line in axes.lines)
    assert len(data) == 101
    scale = np.std(true)
    assert np.max(np.abs(predicted - true)) < 0.3 * scale
    assert 0.1 * scale < np.std(target - true) < scale
    assert {"-", "--", "None"} <= {line.get_linestyle() for line in axes.lines}


def test_the_page_shows_the_committed_numbers():
    """And they support what it says: it is not written otherwise."""
    text = paper_page.page(paper_page.Numbers.load(paper_page.RESULTS))
    assert text == paper_page.PAGE.read_text("utf-8")


@pytest.mark.slow
def test_published_tables_are_reproduced():
    """The printed means, in every cell at noise 0.1 and 0.3; HIV's delay at 0.1 is left
    out: reruns of the published code give 1.0000, where 1.0015 is printed."""
    for model, experiment in EXPERIMENTS.items():
        for record in run_model(experiment, PUBLISHED, NOISE[:2]):
            first_hiv = model == "hiv" and record.noise == 0.1
            rms = record.rms_z(without=("tau",) if first_hiv else ())
            assert rms <= 2, f"{model}, noise {record.noise}: rms z {rms:.2f}"


@pytest.mark.slow
def test_luck_does_not_reproduce_the_tables():
    """Averaged over five seeds, what is left of the difference to the paper is that of
    its own 20 data sets."""
    for model, experiment in EXPERIMENTS.items():
        runs = [run_model(experiment, PUBLISHED, NOISE[:2], seed=s) for s in range(5)]
        for records in zip(*runs):
            estimates = np.concatenate([record.estimates for record in records])
            table = experiment.published(records[0].noise)
            assert table is not None
            z = np.mean(estimates, axis=0) - table.mean
            z /= np.sqrt((np.var(estimates, axis=0, ddof=1) + table.sd**2) / 20)
            kept = np.isfinite(z)
            if model == "hiv" and records[0].noise == 0.1:
                kept[experiment.parameters.index("tau")] = False
            assert np.sqrt(np.mean(z[kept] ** 2)) <= 2
