"""Discovery finds true terms and delays, claims no others, and says what it cannot
tell. The data are by an integrator that is not the package's."""

from dataclasses import replace

import numpy as np
import pytest
from studies.discovery.__main__ import FILE, PYSINDY
from studies.discovery.run import read
from studies.discovery.systems import DELAYED, LACKING, ORDINARY, sample, solution
from studies.discovery.tables import PAGE, tables
from studies.page_tables import read_table

import ddefind as dd
from ddefind._discovery.climb import moves_from
from ddefind._discovery.exact import Question, make_exact
from ddefind._discovery.proposals import coefficients_at, make_record
from support.command import refused, run

LOGISTIC = DELAYED[0]


def data_of(system, points, level, seed):
    own = sample(system, points, level, seed)
    return own, dd.Data(own.t, own.x, names=list(system.states))


def discovered(data, *terms, **options):
    """A discovery without intervals."""
    return dd.discover(data, *terms, **{"intervals": False} | options)


def fitted_again(found):
    """The last fit of a discovery, made from its parts."""
    return dd.fit(
        found.equation, found.data, parameters=found.parameters, intervals=False
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"delays": "many"}, "`delays` must be the largest number of delays, from 0"),
        ({"delays": 7}, "but got 7"),
        ({"known": "y' = x"}, "`known` must give known parts of equations"),
        ({"known": "x' = sine(x)"}, "`known` cannot be read"),
        ({"parameters": {"q": dd.Parameter(lower=1)}}, "stands in no term"),
        ({"parameters": {"tau": "long"}}, "must be a `dd.Parameter"),
        ({"parameters": {"tau": dd.Parameter(lower=9, upper=3)}}, "ascending order"),
        ({"parameters": {"tau": dd.Parameter(lower=9)}}, "searched between 9"),
        ({"parameters": {"tau_1": dd.Parameter(lower=1)}}, "Give these to `tau`"),
        ({"parameters": {"a[": dd.Parameter(lower=1)}}, "stands in no term"),
        ({"known": "x' = x; x' = 1"}, "has two parts for x'. Write their sum"),
        ({"known": "x' = x(t - tau)"}, "Offer a delayed state among the terms"),
        ({"known": ["x' = x"]}, "`known` must be a text"),
        ({"delays": 2, "parameters": {"tau": dd.Fixed(1)}}, "at most one delay"),
        ({"seed": -1}, "`seed` must be an integer from 0 on"),
        ({"terms": ["x", "x(t - tau)"], "delays": 0}, "a delay, but `delays` is 0"),
        ({"known": "x' = NN(x)"}, "cannot contain a network, as NN"),
        ({"terms": ["x", "x^2 / K"]}, "so that K has no value of its own"),
        ({"terms": "x * where(x > K, 1, 0)"}, "does not change smoothly with K"),
    ],
)
def test_what_is_asked_is_checked(given, said):
    t = np.linspace(0, 10, 40)
    with pytest.raises((TypeError, ValueError)) as caught:
        dd.discover(dd.Data(t, np.sin(t)), **given)
    assert said in str(caught.value)


def test_data_are_checked():
    t, terms = np.linspace(0, 10, 40), ["polynomial(1)", "LYNX * lynx^2"]
    for data, said in [
        (dd.Data(t[:9], t[:9]), "has 9 values. `discover` needs at least 20"),
        (dd.Data(t, t, names=["two words"]), "cannot stand in an equation"),
        (3, "`data` must be"),
        ([dd.Data(t, t)], "make experiments of them"),
        (dd.Data(t, t, names=["LYNX"]), "called like the state LYNX"),
        (
            [dd.Experiment(dd.Data(t[:9], t[:9]), label=label) for label in "ab"],
            "has 18 values. `discover` needs at least 20",
        ),
        (
            [
                dd.Experiment(dd.Data(t, np.c_[t, t * own]), label=label)
                for label, own in (("a", 1.0), ("b", np.nan))
            ],
            "Experiment 'b' has no value of x_1",
        ),
    ]:
        with pytest.raises((TypeError, ValueError)) as caught:
            dd.discover(data, terms)  # type: ignore
        assert said in str(caught.value)


def test_the_command_line_speaks_of_its_options(tmp_path, capsys):
    path = tmp_path / "data.csv"
    t = np.linspace(0, 10, 40)
    dd.Data(t, np.sin(t)).to_csv(path)
    said = refused(capsys, "discover", path, "--known", "y' = 1", "--quiet")
    assert "`--known` must give known parts" in said
    said = refused(capsys, "discover", path, "--bounds", "q > 1", "--quiet")
    assert "`q` stands in no term" in said


@pytest.fixture(scope="module")
def exact_fits():
    """Fits of products to the delayed logistic equation."""
    own, data = data_of(LOGISTIC, 120, 0.03, 0)
    record = make_record(data)
    assert record is not None
    question = Question(
        ("x",), data, [record], "polynomial(2)", {}, {}, (0.2, data.T / 3), 3.6
    )
    return own, make_exact(question, 1, "constant")


# x and x * x(t - tau) among the candidates.
TRUE = ((0, 1), (0, 4))


def test_the_weak_form_knows_the_coefficients(exact_fits):
    own, exact = exact_fits
    library, records = exact.library, exact.question.records
    found = coefficients_at(library, records, TRUE, own.delays, np.zeros(0))
    assert found is not None and np.allclose(found, [1.4, -0.7], rtol=0.1)


def test_a_fit_of_the_true_structure_finds_the_truth(exact_fits):
    own, exact = exact_fits
    fit = exact.fit(TRUE, exact.start(np.array([1.2, -0.6]), np.zeros(0), (1.0,))[None])
    assert np.allclose(fit.theta[exact.coefficients[:2]], [1.4, -0.7], rtol=0.01)
    assert abs(fit.theta[exact.delays[0]] - own.delays[0]) < 0.01
    # Without a delay the delay is held.
    assert exact.parameters_of(((0, 1), (0, 3))) == exact.parameters_of(TRUE) - 1


def test_structures_that_are_fitted_together_do_not_disturb_each_other(exact_fits):
    own, exact = exact_fits
    few, many = ((0, 1), (0, 3)), ((0, 0), (0, 1), (0, 4))
    structures = [TRUE, few, many, TRUE, few]
    starts = [
        exact.start(np.full(len(each), 0.1), np.zeros(0), own.delays)[None]
        for each in structures
    ]
    together = exact.fit_all(structures, starts)
    for structure, start, fit in zip(structures, starts, together):
        alone = exact.fit(structure, start)
        assert fit.structure == structure
        assert np.isclose(fit.score, alone.score, atol=1e-6)


def test_predicted_moves_come_true(exact_fits):
    own, exact = exact_fits
    start = exact.start(np.array([1.4, -0.7]), np.zeros(0), own.delays)
    fit = exact.fit(TRUE, start[None])
    pairs = tuple((0, j) for j in range(len(exact.library.terms)))
    moves = moves_from(exact, fit, pairs, 30.0)
    added = [move for move in moves if set(TRUE) < set(move.structure)]
    assert len(added) == len(pairs) - 2
    for move in added:
        after = exact.fit(move.structure, move.starts)
        assert abs(after.score - move.predicted) < 1.0
        # and back again: of the larger structure, what the removal costs.
        back = {m.structure: m for m in moves_from(exact, after, pairs, 30.0)}[TRUE]
        assert abs(back.predicted - fit.score) < 1.0


@pytest.fixture(scope="module")
def found():
    own, data = data_of(LOGISTIC, 100, 0.03, 1)
    seen = []
    result = discovered(data, progress=seen.append)
    return own, result, seen


def test_the_true_terms_and_the_delay_are_found(found):
    own, result, seen = found
    assert result.terms == {"x": ("x", "x * x(t - tau)")}
    error = result.fit.values["tau"] - own.delays[0]
    assert abs(error) < 3 * result.fit.standard_errors["tau"]
    assert result.sentences[0].startswith("A delay is claimed")
    assert "it may be another one" in result.sentences[0]
    assert not result.is_inadequate and not result.to_dict()["inadequate"]
    assert result.delay_probability > 0.99
    phases = {each.phase.split(":")[0] for each in seen}
    assert phases > {"without a delay", "one delay"}


def test_what_is_printed_follows_from_the_models(found):
    _, result, _ = found
    weights = np.array([model.weight for model in result.models])
    assert np.all(np.diff(weights) <= 0) and weights.sum() <= 1 + 1e-9
    for term, probability in result.inclusion["x"].items():
        own = sum(m.weight for m in result.models if term in m.terms["x"])
        assert abs(own - probability) < 1e-2
    gain = result.without_delay.score - result.best.score
    assert f"higher by {gain:.1f}" in str(result)
    near = [m for m in result.models if m.score < result.best.score + 2]
    assert list(result.undecided) == (near if len(near) > 1 else [])
    assert ("cannot decide" in str(result)) == (len(near) > 1)
    assert result.to_dict()["terms"] == {"x": ["x", "x * x(t - tau)"]}


def test_the_figure_has_a_bar_for_each_term(found):
    _, result, _ = found
    left, right = result.plot().axes
    assert left.get_yscale() == "log"
    assert len(right.patches) == len(result._terms_shown().rows)


def test_an_interruption_keeps_the_best_so_far():
    _, data = data_of(LOGISTIC, 80, 0.03, 2)

    def interrupt(now):
        if now.phase.startswith("one delay"):
            raise KeyboardInterrupt

    result = dd.discover(data, progress=interrupt)
    assert result.interrupted and result.fit is None
    assert result.sentences[0].startswith("Interrupted: this is the best so far")
    assert "A delay is claimed" not in str(result)


def test_no_delay_is_claimed_for_an_ordinary_equation():
    _, data = data_of(ORDINARY[0], 100, 0.05, 0)
    result = discovered(data)
    assert result.terms == {"x": ("x", "x^2")} and not result.best.delays
    assert result.sentences[0].startswith("No delay is claimed")


@pytest.mark.slow
def test_it_is_said_when_the_truth_is_not_among_the_candidates():
    own, data = data_of(LACKING[1], 150, 0.02, 0)
    result = discovered(data, ["polynomial(2)"])
    # The delay is wrong by far more than its error.
    error = abs(result.best.delays["tau"] - own.delays[0])
    assert result.fit is not None and error > 3 * result.fit.standard_errors["tau"]
    assert np.isclose(result.fit.values["tau"], result.best.delays["tau"], rtol=0.01)
    assert result.is_inadequate and result.to_dict()["inadequate"]
    first, second = result.sentences[:2]
    assert first.startswith("Offer other terms, such as hill")
    assert "are not like noise" in first
    assert "may stand for a missing term" in second
    assert "A delay is claimed" not in str(result)


def test_short_experiments_are_searched_together():
    experiments = []
    for j in range(3):
        t, x = solution(LOGISTIC, 60, (1.1,), np.array([0.4 + 0.5 * j]))
        noise = 0.02 * np.random.default_rng(j).normal(size=x.shape)
        data = dd.Data(t[::4] + 2.0, (x + noise)[::4], names=["x"])
        experiments.append(dd.Experiment(data, label=str(j)))
    result = discovered(experiments, ["x", "x^2", "x * x(t - tau)"])
    assert result.terms == {"x": ("x", "x * x(t - tau)")}
    again, fit = fitted_again(result), result.fit
    assert fit is not None and again.names == fit.names
    assert np.isclose(again.values["tau"], fit.values["tau"], rtol=1e-4)


@pytest.fixture(scope="module")
def ordinary():
    """A record of an ordinary equation that begins later than at 0."""
    own = sample(ORDINARY[0], 60, 0.03, 0)
    return dd.Data(own.t + 5.0, own.x, names=["x"])


def test_without_delays_no_delayed_term_is_a_candidate(ordinary):
    seen = []
    result = discovered(ordinary, delays=0, progress=seen.append)
    assert list(result.inclusion["x"]) == ["1", "x", "x^2"]
    assert all(np.isnan(now.tau) for now in seen if "structures" in now.phase)
    again = fitted_again(result)
    assert result.fit is not None and again.values == pytest.approx(result.fit.values)


def test_an_interrupted_last_fit_is_no_finished_search(ordinary):
    def interrupt(now):
        if "structures" not in now.phase:
            raise KeyboardInterrupt

    result = dd.discover(ordinary, delays=0, progress=interrupt)
    assert result.interrupted and result.sentences[0].startswith("Interrupted")


def test_a_delay_that_was_given_is_not_claimed(ordinary):
    result = discovered(ordinary, parameters={"tau": dd.Fixed(1.0)})
    assert result.sentences[0].startswith("The delay of 1 that was given does not help")


def test_what_is_said_of_delays_is_that_of_the_last_fit(found):
    _, result, _ = found
    searched = {"tau": 1.1 * result.best.delays["tau"]}
    models = (replace(result.best, delays=searched), *result.models[1:])
    moved = replace(result, models=models)
    (said,) = [each for each in moved.sentences if "elsewhere than the search" in each]
    assert f"tau = {result.fit.values['tau']:.4g} instead of" in said
    assert "elsewhere" not in str(result)
    bounds = (0.1, result.fit.values["tau"])
    assert "is the longest" in replace(moved, delay_bounds=bounds).sentences[0]
    untested = replace(result, fit=None)
    assert untested.sentences[0].startswith("The residuals were not tested")


@pytest.mark.slow
@pytest.mark.parametrize("system", DELAYED, ids=lambda each: each.name)
def test_the_systems_of_the_study_are_found(system):
    own, data = data_of(system, 200, 0.01, 11)
    result = discovered(data, system.terms, delays=system.most_delays)
    assert result.best.delays
    longest = max(result.best.delays.values())
    assert abs(longest / max(own.delays) - 1) < 0.1


@pytest.mark.slow
def test_a_record_in_mid_cycle_has_a_history_of_its_own():
    own = sample(LOGISTIC, 300, 0.0, 3)
    rows = own.t > 9
    t, x = own.t[rows] - own.t[rows][0], own.x[rows]
    noise = 0.03 * np.random.default_rng(0).normal(size=x.shape)
    result = discovered(dd.Data(t, x + noise))
    assert result.equation.history != "constant"
    assert {"x", "x * x(t - tau)"} <= set(result.terms["x"])


@pytest.mark.slow
def test_the_folder_of_the_command_goes_on_as_a_fit(tmp_path, capsys):
    own, _ = data_of(LOGISTIC, 80, 0.03, 1)
    path, out = tmp_path / "data.csv", tmp_path / "found"
    dd.Data(own.t + 5, own.x).to_csv(path)
    assert run("discover", path, "--out", out, "--quiet") == 0
    printed = capsys.readouterr().out
    assert "x' = c_1 * x + c_2 * x * x(t - tau)" in printed
    for name in ("discovery.txt", "discovery.json", "discovery.png", "report.html"):
        assert (out / name).is_file()
    assert run("fit", "--config", out / "fit.toml", "--out", tmp_path / "again") == 0
    before, again = dd.load(out), dd.load(tmp_path / "again")
    assert np.isclose(before.values["tau"], again.values["tau"], rtol=1e-4)


@pytest.mark.slow
def test_the_folder_of_a_study_goes_on_from_the_same_times(tmp_path, ordinary):
    for name, first in (("a", 0), ("b", 20)):
        dd.Data(ordinary.t[first:], ordinary.x[first:]).to_csv(tmp_path / f"{name}.csv")
    files, out = (tmp_path / "a.csv", tmp_path / "b.csv"), tmp_path / "found"
    run("discover", *files, "--delays", 0, "--out", out, "--quiet")
    run("fit", "--config", out / "fit.toml", "--out", tmp_path / "again", "--quiet")
    before, again = dd.load(out), dd.load(tmp_path / "again")
    assert again.values == pytest.approx(before.values, rel=1e-4)
    assert "starts = 6" in (out / "fit.toml").read_text()


def test_the_page_shows_what_the_study_found():
    for name, table in tables(read(FILE), read(PYSINDY)).items():
        assert read_table(PAGE, name) == table
