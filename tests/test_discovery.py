"""Discovery finds true terms and delays, claims no others, and says what it cannot
tell. The data are by an integrator that is not the package's."""

import numpy as np
import pytest
from studies.discovery.__main__ import FILE, PYSINDY
from studies.discovery.run import read
from studies.discovery.systems import DELAYED, LACKING, ORDINARY, sample
from studies.discovery.tables import PAGE, tables
from studies.page_tables import read_table

import ddefind as dd
from ddefind._discovery.inner_parameters import columns_of, inner_parameters
from ddefind._discovery.library import make_library
from ddefind._discovery.moves import moves_from
from ddefind._discovery.proposals import coefficients_at
from ddefind._discovery.stages import Question, make_stage
from ddefind._discovery.terms import read_terms
from ddefind._discovery.weak_form import make_record
from support.command import refused, run

LOGISTIC = DELAYED[0]


def data_of(system, points, level, seed):
    own = sample(system, points, level, seed)
    return own, dd.Data(own.t, own.x, names=list(system.states))


def texts(*given, states=("x",), delays=1):
    return [term.text for term in read_terms(list(given), states, delays)]


# Candidates


def test_polynomials_are_all_products_of_states_and_delayed_states():
    linear = ["1", "x", "x(t - tau)"]
    products = ["x^2", "x * x(t - tau)", "x(t - tau)^2"]
    assert texts("polynomial(2)") == [*linear, *products]
    assert len(texts("polynomial(2)", states=("x", "y"))) == 15
    assert len(texts("polynomial(3)", states=("x", "y"))) == 35


def test_families_and_formulas_stand_for_each_delay():
    assert texts("saturation") == [
        "x / (h_x + x)",
        "x(t - tau) / (h_x + x(t - tau))",
    ]
    both = texts("tanh(x(t - tau))", "x", delays=2)
    assert both == ["tanh(x(t - tau_1))", "tanh(x(t - tau_2))", "x"]
    (term,) = read_terms("x(t - tau)^n / (K^n + x(t - tau)^n)", ("x",), 1)
    assert set(term.parameters) == {"n", "K"} and term.delays == (0,)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("sine(x)", "'sine(x)' cannot be read. There is no function 'sine'. Did you"),
        ("x(t - 2)", "reads x(t - 2), but candidates are delayed by tau alone"),
        ("t * x", "candidates are formulas of states"),
        ("polynomial(9)", "the degree must be from 0 to 5"),
        ([], "must be a text such as 'polynomial(2)'"),
        ([3], "one item is 3"),
        ("hil", "has no state in it. Did you mean 'hill'?"),
        ("polynomial(-1)", "with a degree from 0 to 5"),
        ("x, x^2", "Give several candidates as a list of texts."),
        ("x +* 2", "between '+' and '*'.\n  x +* 2\n     ^"),
        ("y(t - tau)", "Known names: x.\n"),
    ],
)
def test_candidates_that_cannot_be_are_refused(given, said):
    with pytest.raises((TypeError, ValueError)) as caught:
        read_terms(given, ("x",), 1)
    assert said in str(caught.value)


def test_questions_that_cannot_be_are_refused():
    t = np.linspace(0, 10, 40)
    data = dd.Data(t, 1 + np.sin(t), names=["x"])
    with pytest.raises(ValueError, match="needs a delay, but `delays` is 0"):
        dd.discover(data, ["x", "x(t - tau)"], delays=0)
    with pytest.raises(ValueError, match="cannot contain a network, as NN"):
        dd.discover(data, "x", known="x' = NN(x)")


def test_columns_of_one_term_exclude_each_other():
    terms = read_terms(["x", "exp(-a * x)", "x * exp(-a * x)"], ("x",), 1)
    library = make_library(("x",), terms, 1, {})
    inner = inner_parameters(library, np.ones((5, 1)), 1.0, {})
    row, term, compatible = columns_of(library, inner)
    assert np.all(compatible[0, 1:]) and not np.any(np.diag(compatible))
    for i, j in np.argwhere(compatible[1:, 1:]) + 1:
        # They share a, and so need the same value of it.
        assert term[i] != term[j]
        assert np.isclose(inner.rows[row[i], 0], inner.rows[row[j], 0])


# Input


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"delays": "many"}, "`delays` must be the largest number of delays, from 0"),
        ({"delays": 7}, "but got 7"),
        ({"known": "y' = x"}, "`known` must give known parts of equations"),
        ({"known": "x' = sine(x)"}, "`known` cannot be read"),
        ({"parameters": {"q": dd.Parameter(lower=1)}}, "stands in no term"),
        ({"parameters": {"tau": "long"}}, "must be a `dd.Parameter"),
        (
            {"parameters": {"tau": dd.Parameter(lower=9, upper=3)}},
            "must be in ascending order",
        ),
        ({"parameters": {"tau": dd.Parameter(lower=9)}}, "searched between 9"),
        ({"parameters": {"tau_1": dd.Parameter(lower=1)}}, "Give these to `tau`"),
        ({"parameters": {"a[": dd.Parameter(lower=1)}}, "stands in no term"),
        ({"known": "x' = x; x' = 1"}, "has two parts for x'. Write their sum"),
        ({"known": "x' = x(t - tau)"}, "Offer a delayed state among the terms"),
        ({"known": ["x' = x"]}, "`known` must be a text"),
        ({"delays": 2, "parameters": {"tau": dd.Fixed(1)}}, "at most one delay"),
        ({"seed": -1}, "`seed` must be an integer from 0 on"),
        ({"terms": ["x", "x^2 / K"]}, "so that K has no value of its own"),
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
    ]:
        with pytest.raises((TypeError, ValueError)) as caught:
            dd.discover(data, terms)  # type: ignore
        assert said in str(caught.value)


def test_the_command_line_speaks_of_its_options(tmp_path, capsys):
    path = tmp_path / "data.csv"
    t = np.linspace(0, 10, 40)
    path.write_text("t,x\n" + "".join(f"{a},{np.sin(a)}\n" for a in t))
    said = refused(capsys, "discover", path, "--known", "y' = 1", "--quiet")
    assert "`--known` must give known parts" in said
    said = refused(capsys, "discover", path, "--bounds", "q > 1", "--quiet")
    assert "`q` stands in no term" in said


# The parts of the search


@pytest.fixture(scope="module")
def stage():
    """A search among products for the delayed logistic equation."""
    own, data = data_of(LOGISTIC, 120, 0.03, 0)
    record = make_record(data)
    assert record is not None
    question = Question(
        ("x",), data, [record], "polynomial(2)", {}, {}, (0.2, data.T / 3), 3.6
    )
    return own, make_stage(question, 1, "constant", "test", lambda *_: None)


# x and x * x(t - tau) among the candidates.
TRUE = ((0, 1), (0, 4))


def test_the_weak_form_knows_the_coefficients(stage):
    own, made = stage
    library, records = made.library, made.search.records
    found = coefficients_at(library, records, TRUE, own.delays, np.zeros(0))
    assert found is not None and np.allclose(found, [1.4, -0.7], rtol=0.1)


def test_a_fit_of_the_true_structure_finds_the_truth(stage):
    own, made = stage
    exact = made.search.exact
    fit = exact.fit(TRUE, exact.start(np.array([1.2, -0.6]), np.zeros(0), (1.0,))[None])
    assert np.allclose(fit.theta[exact.coefficients[:2]], [1.4, -0.7], rtol=0.01)
    assert abs(fit.theta[exact.delays[0]] - own.delays[0]) < 0.01
    # Without a delay the delay is held.
    assert exact.parameters_of(((0, 1), (0, 3))) == exact.parameters_of(TRUE) - 1


def test_structures_that_are_fitted_together_do_not_disturb_each_other(stage):
    own, made = stage
    exact = made.search.exact
    few, many = ((0, 1), (0, 3)), ((0, 0), (0, 1), (0, 4))
    structures = [TRUE, few, many, TRUE, few]
    starts = [
        exact.start(np.full(len(each), 0.1), np.zeros(0), own.delays)[None]
        for each in structures
    ]
    together = exact.fit_all(structures, starts)
    for structure, start, fit in zip(structures, starts, together):
        alone = exact.fit(structure, start)
        assert fit.structure == structure and np.isclose(
            fit.score, alone.score, atol=1e-6
        )


def test_predicted_moves_come_true(stage):
    own, made = stage
    exact = made.search.exact
    start = exact.start(np.array([1.4, -0.7]), np.zeros(0), own.delays)
    fit = exact.fit(TRUE, start[None])
    pairs = [(0, j) for j in range(len(made.library.terms))]
    moves = moves_from(exact, fit, pairs, 30.0)
    added = [move for move in moves if set(TRUE) < set(move.structure)]
    assert len(added) == len(pairs) - 2
    for move in added:
        after = exact.fit(move.structure, move.starts)
        assert abs(after.score - move.predicted) < 1.0
        # and back again: of the larger structure, what the removal costs.
        back = {m.structure: m for m in moves_from(exact, after, pairs, 30.0)}[TRUE]
        assert abs(back.predicted - fit.score) < 1.0


# The whole


@pytest.fixture(scope="module")
def found():
    own, data = data_of(LOGISTIC, 100, 0.03, 1)
    seen = []
    result = dd.discover(data, intervals=False, progress=seen.append)
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
    assert {each.phase.split(":")[0] for each in seen} > {
        "without a delay",
        "one delay",
    }


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
    assert len(right.patches) == len(result._term_rows()) - 1


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
    result = dd.discover(data, intervals=False, progress=False)
    assert result.terms == {"x": ("x", "x^2")} and not result.best.delays
    assert result.sentences[0].startswith("No delay is claimed")


def test_it_is_said_when_the_truth_is_not_among_the_candidates():
    own, data = data_of(LACKING[1], 150, 0.02, 0)
    result = dd.discover(data, ["polynomial(2)"], intervals=False, progress=False)
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


@pytest.mark.slow
@pytest.mark.parametrize("system", DELAYED, ids=lambda each: each.name)
def test_the_systems_of_the_study_are_found(system):
    own, data = data_of(system, 200, 0.01, 11)
    result = dd.discover(
        data, system.terms, delays=system.most_delays, intervals=False, progress=False
    )
    assert result.best.delays
    longest = max(result.best.delays.values())
    assert abs(longest / max(own.delays) - 1) < 0.1


@pytest.mark.slow
def test_a_record_in_mid_cycle_has_a_history_of_its_own():
    own = sample(LOGISTIC, 300, 0.0, 3)
    rows = own.t > 9
    t, x = own.t[rows] - own.t[rows][0], own.x[rows]
    noise = 0.03 * np.random.default_rng(0).normal(size=x.shape)
    result = dd.discover(dd.Data(t, x + noise), intervals=False, progress=False)
    assert result.equation.history != "constant"
    assert {"x", "x * x(t - tau)"} <= set(result.terms["x"])


@pytest.mark.slow
def test_the_folder_of_the_command_goes_on_as_a_fit(tmp_path, capsys):
    own, _ = data_of(LOGISTIC, 80, 0.03, 1)
    path, out = tmp_path / "data.csv", tmp_path / "found"
    rows = zip(own.t.tolist(), own.x[:, 0].tolist())
    path.write_text("t,x\n" + "".join(f"{t + 5},{x}\n" for t, x in rows))
    assert run("discover", path, "--out", out, "--quiet") == 0
    printed = capsys.readouterr().out
    assert "x' = c_1 * x + c_2 * x * x(t - tau)" in printed
    for name in ("discovery.txt", "discovery.json", "discovery.png", "report.html"):
        assert (out / name).is_file()
    before = dd.load(out / "result.json")
    assert run("fit", "--config", out / "fit.toml", "--out", tmp_path / "again") == 0
    again = dd.load(tmp_path / "again" / "result.json")
    assert np.isclose(before.values["tau"], again.values["tau"], rtol=1e-4)


def test_the_page_shows_what_the_study_found():
    for name, table in tables(read(FILE), read(PYSINDY)).items():
        assert read_table(PAGE, name) == table
