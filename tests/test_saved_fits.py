"""Saved fits: they come back as they were, or with a clear error."""

import hashlib
import json
import os

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._cli.main import main
from ddefind._results.saved_file import FORMAT, VERSION, saved_text
from ddefind._results.saved_fit import read_content
from support.fits import as_descent, load_estimate, unchecked
from test_documentation import ROOT

TEXT = "x' = r * x * (1 - x(t - tau) / K)"
TIMES = np.linspace(0, 8, 41)


def trajectory():
    truth = dd.equation(TEXT).problem(r=1.8, K=2.5, b=0.5, tau=0.8)
    return np.asarray(dd.solve(truth, T=8.0)(TIMES))[:, 0]


@pytest.fixture(scope="module")
def data():
    x = trajectory() + 0.05 * np.random.default_rng(0).normal(size=41)
    x[7] = np.nan
    return dd.Data(TIMES, x, label="lake", origin="2020-01-01", notes=["Counted.", "é"])


@pytest.fixture(scope="module")
def fit(data):
    return dd.fit(dd.equation(TEXT), data, optimizer=dd.LeastSquares(starts=4), seed=5)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.json"


def user_rhs(x, y, tau, t):
    return -jnp.sin(y)


def same(found, fit):
    """Whether two estimates are the same in every number."""
    assert type(found) is dd.Estimate
    assert str(found) == str(fit)
    assert found.summary() == fit.summary()
    assert found.to_dict() == fit.to_dict()
    assert found.status is fit.status and found.message == fit.message
    for name in ("best", "covariance", "fitted"):
        np.testing.assert_array_equal(getattr(found, name), getattr(fit, name))
    for one, two in zip(found.minima, fit.minima, strict=True):
        np.testing.assert_array_equal(one.theta, two.theta)
    assert found.problem.tau == fit.problem.tau
    for name in ("t", "x", "sd"):
        np.testing.assert_array_equal(*(getattr(f.data, name) for f in (found, fit)))
    for name in ("names", "label", "origin", "notes"):
        assert getattr(found.data, name) == getattr(fit.data, name)


def test_an_estimate_comes_back(fit, path):
    fit.save(path)
    found = load_estimate(path)
    same(found, fit)
    assert repr(found.model) == repr(fit.model)
    assert found.seed == 5 and found.starts == fit.starts
    # What was not saved is computed as before.
    one, two = found.profile("r", level=0.8), fit.profile("r", level=0.8)
    assert one.interval == two.interval
    assert found.plot_profile("tau") and found.plot_waterfall() and found.plot()
    # And it can be saved again.
    again = path.with_name("again.json")
    found.save(again)
    assert again.read_bytes() == path.read_bytes()


def test_a_folder_is_loaded_as_well(fit, tmp_path):
    fit.save(tmp_path / "result.json")
    same(dd.load(tmp_path), fit)
    same(dd.load(str(tmp_path)), fit)


def test_intervals_that_were_left_out_are_found_later(fit, data, path):
    options = {"optimizer": dd.LeastSquares(starts=4), "seed": 5}
    without = dd.fit(dd.equation(TEXT), data, intervals=False, **options)
    without.save(path)
    body = json.loads(path.read_text())
    assert body["profiles"] is None and body["assessment"] is None
    assert set(body["table"][0]) == {"name", "estimate", "standard_error"}
    assert "std. error" in body["text"] and "95%" not in body["text"]
    found = load_estimate(path)
    assert str(found) == str(without) and "were left out" in str(found)
    assert found.values == fit.values
    with pytest.raises(ValueError, match=r"`fit = fit.with_intervals\(\)`"):
        _ = found.intervals
    assert found.with_intervals().intervals == fit.intervals


def test_bounds_priors_ties_and_noise_come_back(path):
    model = dd.equation(
        "x' = r * x * (1 - x(t - tau) / K); x(t<=0) = K * s", observe="y = c * x"
    )
    data = dd.Data(TIMES, 2 * trajectory(), sd=0.1, names="y")
    bounded = dd.Parameter(start=2.0, lower=1.0, upper=4.0)
    likely = dd.Parameter(prior=dd.GaussianPrior(1.8, 0.1))
    parameters = {"c": dd.Fixed(2.0), "K": bounded, "r": likely, "s": 0.2}
    two = dd.LeastSquares(starts=2)
    fit = dd.fit(model, data, parameters=parameters, optimizer=two)
    fit.save(path)
    found = load_estimate(path)
    same(found, fit)
    assert found.names == ("r", "K", "s", "tau")
    assert found.chi_square == fit.chi_square and found.noise == fit.noise
    np.testing.assert_array_equal(found.setup.lower, fit.setup.lower)
    np.testing.assert_array_equal(found.setup.guess, fit.setup.guess)
    assert float(found.problem.rhs.K) == float(found.problem.history.K)
    # It is the same problem to the optimiser, too.
    z = found.best[None] * 1.01
    points, n = found.search_result.points, found.setup.steps(z)
    from ddefind._search.batches import refine

    one = refine(found.setup, z, points, n)
    two = refine(fit.setup, z, fit.search_result.points, n)
    np.testing.assert_array_equal(one.gram, two.gram)


MODULES = [
    dd.Problem(dd.models.Exponential(-1.0, -0.5), dd.Affine(0.1, 1.0), tau=1.0),
    dd.Problem(dd.models.Logistic(1.5, 0.4), dd.Periodic(0.1, 2.0, 0.5), tau=0.8),
    dd.Problem(dd.models.ENSO(1.0, 1.0, 0.5), dd.Constant(1.0), 0.7, initial=0.5),
    dd.Problem(dd.models.Cheyne(1.0, 7.0, 2.0, m=6), dd.Constant(2.0), tau=0.3),
    dd.Problem(dd.models.HIV(), dd.Constant([10.0, 8.0, 1.0]), tau=1.0),
    dd.Problem(dd.models.Neural(2, width=3, depth=1), dd.Neural(2, depth=0), tau=1.0),
]


@pytest.mark.parametrize("problem", MODULES, ids=lambda p: type(p.rhs).__name__)
def test_gradient_descent_of_the_packages_modules_comes_back(problem, path):
    data = dd.Data([0.0, 0.5, 1.0], np.ones((3, problem.dimension)))
    options = {"optimizer": dd.SGD(1e-6), "solver": dd.Euler(), "steps_per_delay": 4}
    fit = dd.fit(problem, data, epochs=2, **options)
    fit.save(path)
    found = dd.load(path)
    assert type(found) is dd.FitResult
    assert str(found) == str(fit) and found.summary() == fit.summary()
    assert found.to_dict() == fit.to_dict()
    assert dd.parameter_values(found.start) == dd.parameter_values(problem)
    for name in ("best", "first", "final", "losses", "path"):
        np.testing.assert_array_equal(getattr(found, name), getattr(fit, name))
    np.testing.assert_array_equal(found.solution(0.7), fit.solution(0.7))
    assert eqx.tree_equal(found.problem, fit.problem)


def test_losses_that_exploded_come_back(path):
    problem = dd.Problem(dd.models.Exponential(1.0, 1.0), dd.Constant(1.0), tau=1.0)
    data = dd.Data([0.0, 1.0], [1.0, 2.0])
    fit = dd.fit(problem, data, optimizer=dd.SGD(1e300), epochs=3)
    assert not np.all(np.isfinite(fit.losses))
    fit.save(path)
    json.loads(path.read_text(), parse_constant=pytest.fail)  # strict JSON
    np.testing.assert_array_equal(as_descent(dd.load(path)).losses, fit.losses)


def test_a_model_of_the_users_needs_the_user(path, data):
    problem = dd.Problem(user_rhs, dd.Constant(0.5), tau=0.8)
    fit = dd.fit(problem, data, optimizer=dd.LeastSquares(starts=1))
    fit.save(path)
    found = dd.load(path)
    assert type(found) is dd.SavedFit
    assert found.values == fit.values and found.summary() == fit.summary()
    assert str(found) == str(fit) and found.status is fit.status
    assert found.loss == fit.loss and found.data.label == "lake"
    body = json.loads(path.read_text())
    body["table"][0] = {}
    wrong = refused(path.with_name("wrong.json"), signed(body))
    assert "rows of `table` must have a name" in wrong
    same(dd.load(path, problem=problem), fit)
    other = dd.Problem(dd.models.Logistic(1.0, 1.0), dd.Constant(0.5), tau=0.8)
    with pytest.raises(dd.ResultError, match="not the one that was saved.*theta_0"):
        dd.load(path, problem=other)
    with pytest.raises(TypeError, match="`problem` is a right-hand side"):
        dd.load(path, problem=unchecked(user_rhs))


def test_an_equation_with_a_history_of_the_users(path, data):
    model = dd.equation(TEXT, history=lambda t: jnp.array([0.5]))
    near = {"r": 1.8, "K": 2.5, "tau": 0.8}
    options = {"parameters": near, "optimizer": dd.LeastSquares(starts=1)}
    fit = dd.fit(model, data, **options)
    fit.save(path)
    assert type(dd.load(path)) is dd.SavedFit
    same(dd.load(path, problem=model), fit)


def test_an_equation_with_a_history_of_the_packages(path, data):
    model = dd.equation(TEXT, history=dd.Affine(0.1, 0.5))
    fit = dd.fit(model, data, optimizer=dd.LeastSquares(starts=1))
    fit.save(path)
    same(dd.load(path), fit)


@pytest.mark.slow
def test_a_fit_that_failed_can_be_saved(path, data):
    model = dd.equation("x' = exp(exp(exp(30 + x^2))) + k * x(t - tau)")
    fit = dd.fit(model, data, optimizer=dd.LeastSquares(starts=1))
    assert fit.status is dd.Status.no_start and fit.loss == np.inf
    fit.save(path)
    found = dd.load(path)
    assert found.status is fit.status and found.values == fit.values
    assert found.loss == np.inf


@pytest.fixture(scope="module")
def saved(fit):
    return saved_text(fit.file_content())


def refused(path, content):
    """The message that a file with this content is refused with."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(dd.ResultError) as caught:
        dd.load(path)
    message = str(caught.value)
    assert message.startswith(str(path)) and len(message) < 600
    return message


def test_a_file_that_was_cut_off(saved, path):
    size = len(saved)
    for end in [1, 2, 10, 30, *range(100, size - 2, size // 40), size - 3]:
        assert "damaged or cut off" in refused(path, saved[:end])
    assert "empty" in refused(path, "") or "damaged" in refused(path, "")


def test_a_fit_with_huber_is_refused(saved, path):
    body = json.loads(saved) | {"version": 2, "options": {"huber": 1.345}}
    assert '`noise="student"`' in refused(path, json.dumps(body))


def test_a_file_that_was_altered(saved, path):
    random = np.random.default_rng(1)
    digits = [i for i, c in enumerate(saved) if c.isdigit()]
    for place in random.choice(digits, 60, replace=False):
        altered = saved[:place] + str((int(saved[place]) + 1) % 10) + saved[place + 1 :]
        if json.loads(altered) != json.loads(saved):  # the last digits may not matter
            refused(path, altered)
    assert "altered" in refused(path, saved.replace("lake", "pond"))
    body = json.loads(saved)
    del body["checksum"]
    assert "altered" in refused(path, json.dumps(body))


def test_blanks_and_order_are_no_alteration(saved, path, fit):
    path.write_text(json.dumps(json.loads(saved), indent=4, sort_keys=True))
    same(dd.load(path), fit)


@pytest.mark.parametrize("version", [1, VERSION - 1, VERSION + 1, 99])
def test_another_version(saved, path, version):
    body = json.loads(saved) | {"version": version, "ddefind": "9.9"}
    says = refused(path, json.dumps(body))
    assert f"another version of ddefind (9.9, format {version};" in says
    assert "fit again" in says and "huber" not in says


@pytest.mark.parametrize("version", ["2", None, 1.5, 0, True])
def test_no_version(saved, path, version):
    body = json.loads(saved) | {"version": version}
    assert "is not valid" in refused(path, json.dumps(body))


@pytest.mark.parametrize(
    "content",
    ["[]", "3", "{}", '{"format": "other"}', "t,x\n0,1\n", "\x00", b"\xff\xfe{", "NaN"]
    + ["[" * 100_000, '{"a": ' * 100_000, "1" * 10_000, b"\x89PNG\r\n\x1a\n"],
)
def test_other_files(content, path):
    assert "not a fit that ddefind saved" in refused(path, content)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(dd.ResultError, match="no such file"):
        dd.load(tmp_path / "fit.json")
    with pytest.raises(dd.ResultError, match="holds no saved fit"):
        dd.load(tmp_path)  # a folder without a result


def signed(body):
    """A file whose checksum is right, whatever it says."""
    body = {key: value for key, value in body.items() if key != "checksum"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return json.dumps(body | {"checksum": hashlib.sha256(text.encode()).hexdigest()})


def replaced(body, keys, value):
    *front, last = keys
    inner = body
    for key in front:
        inner = inner[key]
    inner[last] = value


def places(value, keys=()):
    """Every place in nested lists and objects; of long lists the first and the last."""
    yield keys
    if isinstance(value, dict):
        inner = value
    elif isinstance(value, list) and value:
        inner = {0: value[0], len(value) - 1: value[-1]}
    else:
        return
    for key, each in inner.items():
        yield from places(each, (*keys, key))


# Of every type, out of every range, and larger than any memory.
WRONG = (None, True, -1, 10**12, "RK4", [], [1e10] * 3, {}, [[]], "NaN", 0.5)
IGNORED = {"checksum", "format", "version", "ddefind"}


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_field_that_was_replaced_is_refused_or_harmless(saved, path, wrong):
    """Whatever stands in a field, under a right checksum: the file is refused by a
    sentence, or the fit that it gives can be shown."""
    for keys in places(json.loads(saved)):
        if not keys or keys[0] in IGNORED:
            continue
        body = json.loads(saved)
        replaced(body, keys, wrong)
        path.write_text(signed(body))
        try:
            found = dd.load(path)
        except dd.ResultError as error:
            assert str(error).startswith(str(path)) and len(str(error)) < 600
        else:
            assert str(found) and found.summary() and found.values


@pytest.mark.parametrize("arguments", [[10**9, 4, 1], [1, 10**9, 1], [1, 1, 10**7]])
def test_a_network_larger_than_its_file(path, arguments):
    problem = dd.Problem(dd.models.Neural(1, width=3), dd.Constant(1.0), tau=1.0)
    data = dd.Data([0.0, 1.0], [1.0, 1.0])
    content = dd.fit(problem, data, optimizer=dd.SGD(1e-6), epochs=0).file_content()
    sizes = dict(zip(("d", "width", "depth"), arguments))
    content["problem"]["rhs"]["arguments"] = sizes
    assert "larger arrays than the file" in refused(path, saved_text(content))


BAD = [
    (["problem"], {"rhs": {"class": "os.system", "arguments": {"command": "ls"}}}),
    (["problem"], {"equation": "x' = __import__('os')", "history": None}),
    (["problem", "history"], {"class": "Constant", "arguments": {"b": "ls"}}),
    (["problem", "equation"], "x' = -x(t - tau)"),
    (["problem", "equation"], 3),
    (["parameters", 0, "shape"], [10**12]),
    (["parameters", 0, "values"], "many"),
    (["parameters", 0, "free"], [7]),
    (["parameters"], None),
    (["kind"], None),
    (["data", "t"], [0.0]),
    (["data", "x"], [[1.0], [2.0]]),
    (["data", "names"], ["a", "b"]),
    (["solver"], "RK99"),
    (["search", "best", "theta"], [1.0]),
    (["search", "best", "gram"], [[1.0]]),
    (["search", "weights"], [1.0]),
    (["search", "noise"], [1.0, 2.0]),
    (["search", "best"], {}),
    (["search", "minima"], [[1]]),
    (["free", "lower"], ["low"] * 4),
    (["free", "upper"], [1.0]),
    (["free", "names"], ["r"]),
    (["profiles", 0], {}),
    (["options"], []),
]


@pytest.mark.parametrize("keys, value", BAD, ids=lambda v: str(v)[:30])
def test_a_wrong_file_with_a_right_checksum(saved, path, keys, value):
    body = json.loads(saved)
    replaced(body, keys, value)
    assert refused(path, signed(body))


def test_the_file_is_as_documented(saved):
    body = json.loads(saved)
    assert body["format"] == FORMAT == "ddefind fit" and body["version"] == VERSION == 3
    assert body["problem"] == {"equation": TEXT, "history": "constant", "observe": None}
    assert body["data"]["x"][7] == ["NaN"]
    assert signed(body) and json.loads(signed(body))["checksum"] == body["checksum"]
    assert [row["name"] for row in body["table"]] == ["r", "K", "b", "tau"]


def test_the_schema_and_the_page_have_every_key(saved):
    page = (ROOT / "docs" / "reference" / "saved-fits.md").read_text()
    body = json.loads(saved)
    envelope = {"format", "version", "ddefind", "checksum"}
    assert set(read_content(body)) == set(body) - envelope
    for name, part in body.items():
        inner = part if name in ("search", "free", "assessment", "data") else {}
        for key in (name, *inner):
            assert f"`{key}`" in page, key


def test_saving_to_no_folder(fit, tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        fit.save(tmp_path / "deep" / "fit.json")
    assert os.listdir(tmp_path) == []


KEPT = ROOT / "tests" / "saved_fits"


class TestKeptFiles:
    """Files that were written before, of the present version, can be read."""

    def test_an_estimate(self):
        path = KEPT / "estimate.json"
        saved, found = json.loads(path.read_text()), dd.load(path)
        assert isinstance(found, dd.Estimate)
        assert str(found) == saved["text"]
        # Rounding errors are those of a machine.
        for row, before in zip(found.summary(), saved["table"], strict=True):
            assert row.keys() == before.keys()
            for key, value in before.items():
                is_number = isinstance(value, float)
                assert row[key] == (pytest.approx(value) if is_number else value), key
        assert found.names == ("r", "K", "b", "tau")
        assert np.all(np.isfinite(found.predict(12.0).mean))

    def test_a_descent(self):
        path = KEPT / "descent.json"
        saved, found = json.loads(path.read_text()), dd.load(path)
        assert isinstance(found, dd.FitResult)
        assert str(found) == saved["text"] and len(found.losses) == 6

    def test_a_model_of_the_users(self):
        found = dd.load(KEPT / "code.json")
        assert isinstance(found, dd.SavedFit) and found.names == ("b", "tau")
        problem = dd.Problem(lambda x, y, tau, t: -0.5 * y, dd.Constant(1.0), 1.0)
        whole = dd.load(KEPT / "code.json", problem=problem)
        assert isinstance(whole, dd.Estimate) and whole.values == found.values
        assert str(whole) == str(found) and "determined is not said" in str(whole)

    def test_a_folder_of_the_command_line(self, tmp_path, capsys):
        """Its table is shown again, and its `fit.toml` repeats the fit."""
        path = KEPT / "folder"
        shown = (path / "table.txt").read_text()
        with pytest.raises(SystemExit):
            main(["show", str(path)])
        assert shown in capsys.readouterr().out
        with pytest.raises(SystemExit):
            config = ["--config", str(path / "fit.toml"), "--quiet"]
            main(["fit", *config, "--out", str(tmp_path / "again")])
        again, before = dd.load(tmp_path / "again"), dd.load(path)
        assert again.values == pytest.approx(before.values, rel=1e-9)
