"""Reports: what they hold, that they need nothing else, and that texts stay texts."""

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import ddefind as dd
from ddefind._cli.examples_command import EQUATION, logistic_data
from ddefind._data.data import Data
from ddefind._figures.chart import Chart, Series, data_series, thinned
from ddefind._report.pictures import drawing, typeset
from ddefind._report.sections import marked
from support.command import refused, run

HOSTILE = "<script>alert(1)</script>"
NAMES = ("Results", "Data and fitted curve", "Residuals", "Profiles")
NAMES += ("Correlations of the estimates", "The search", "The delayed state")
NAMES += ("Stability", "Settings, and how to repeat this fit")
LARGEST = 1_500_000


class Page(HTMLParser):
    """The parts of a page: its elements with their attributes, and its texts."""

    def __init__(self, text):
        super().__init__()
        self.text, self.elements, self.scripts, self.said = text, [], [], []
        self._is_in_script = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._is_in_script = tag in ("script", "style")
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._is_in_script = False

    def handle_data(self, data):
        if self._is_in_script and self.elements[-1][0] == "script":
            self.scripts[-1] += data
        elif not self._is_in_script:
            self.said.append(data)

    @property
    def words(self):
        return " ".join(self.said)

    def charts(self):
        pairs = zip([e for e in self.elements if e[0] == "script"], self.scripts)
        return [json.loads(s) for e, s in pairs if e[1].get("type")]


@pytest.fixture(scope="module")
def fit():
    return dd.fit(dd.equation(EQUATION), logistic_data(), seed=1)


@pytest.fixture(scope="module")
def page(fit, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "fit.html"
    fit.report(path)
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study whose labels and columns want to be code."""
    model = dd.equation("x' = r * x * (1 - x(t - tau) / K)")
    t, random = np.linspace(0, 8, 25), np.random.default_rng(0)
    experiments = []
    for label, b in ((HOSTILE, 0.5), ('" onload="alert(2)', 1.5)):
        truth = model.problem(r=1.8, K=2.5, tau=0.8, b=b)
        x = np.asarray(dd.solve(truth, T=8.0)(t)) + 0.05 * random.normal(size=(25, 1))
        axes = ("time", f"x {HOSTILE}")
        data = dd.Data(t, x, label=label, axis_labels=axes, notes=[f"`{HOSTILE}`"])
        experiments.append(dd.Experiment(data))
    search = dd.LeastSquares(starts=2)
    study = dd.fit(model, experiments, optimizer=search, intervals=False)
    path = tmp_path_factory.mktemp("study") / "study.html"
    study.report(path, until=9.0)
    return path


def test_it_has_every_section(page):
    titles = [title for title in NAMES if title in page.words]
    assert titles == list(NAMES)


def test_it_says_what_the_fit_says(fit, page):
    for cell in (cell for row in fit.cells().rows for cell in row if cell):
        assert cell in page.said
    for sentence in fit.sentences():
        assert sentence in page.words
    assert page.words.count("not contradicted") == len(fit.checks)
    assert str(fit.stability().equilibria[0].verdict) in page.said


def test_it_needs_nothing_but_itself(page):
    assert len(page.text) < LARGEST
    for tag, attributes in page.elements:
        assert "src" not in attributes, tag
        assert tag not in ("img", "iframe", "object", "embed", "base")
        assert attributes.get("href", "#").startswith(("#", "data:"))
    assert "url(" not in page.text and "@import" not in page.text
    (policy,) = [a for _, a in page.elements if "http-equiv" in a]
    assert policy["content"].startswith("default-src 'none';")
    allowed = re.findall(r"script-src ([^;]*);", policy["content"])[0].split()
    assert len(allowed) == 3 and all(each[:8] == "'sha256-" for each in allowed)


@pytest.mark.slow
def test_doubts_are_set_off(page, tmp_path):
    assert "No test of the residuals contradicts this model." in page.words
    assert not any(a.get("class") == "doubt" for _, a in page.elements)
    constant = dd.equation("x' = -k * x(t - tau)")
    wrong = dd.fit(constant, logistic_data(), optimizer=dd.LeastSquares(starts=4))
    wrong.report(tmp_path / "wrong.html")
    found = Page((tmp_path / "wrong.html").read_text())
    count = len(wrong.failed_checks)
    assert f"{count} tests of the residuals contradict" in found.words
    assert sum(a.get("class") == "doubt" for _, a in found.elements) > 2


def test_its_charts_hold_the_data_and_the_bands(fit, page):
    course, residuals, *_ = page.charts()
    series = {each["label"]: each for each in course["series"]}
    np.testing.assert_allclose(series["data"]["y"], fit.data.x[:, 0], rtol=1e-5)
    np.testing.assert_allclose(series["data"]["x"], fit.data.t, rtol=1e-6)
    band = series["95% confidence band of the curve"]
    said = fit.predict(np.array(band["x"]))
    np.testing.assert_allclose(band["y"], said.low[:, 0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(band["high"], said.high[:, 0], rtol=1e-4, atol=1e-6)
    assert band["x"][-1] == pytest.approx(1.25 * fit.data.T)
    found = residuals["series"][0]["y"]
    np.testing.assert_allclose(found, fit.residuals[:, 0], rtol=1e-4, atol=1e-6)


def test_its_profiles_end_at_the_intervals(fit, page):
    charts = {chart["x"]: chart for chart in page.charts()}
    for name, ends in fit.intervals.items():
        marks = [m["value"] for m in charts[name]["marks"] if m["along"] == "x"]
        np.testing.assert_allclose(marks, ends)


def test_its_pictures_are_whole(page):
    pictures = re.findall(r"<svg class.*?</svg>(?=\n|</div>)", page.text, re.DOTALL)
    assert len(pictures) == 1 + len(page.charts()) + 1  # formula, charts, loop
    for picture in pictures:
        assert ET.fromstring(picture).attrib["role"] == "img"
        assert not re.search(r"nan|inf\b", picture)


def test_the_fit_comes_back_from_the_page(fit, page, tmp_path):
    import base64

    (link,) = [a for _, a in page.elements if a.get("download") == "fit.json"]
    (tmp_path / "fit.json").write_bytes(base64.b64decode(link["href"].split(",")[1]))
    assert str(dd.load(tmp_path / "fit.json")) == str(fit)


def test_hostile_labels_stay_text(study):
    page = Page(study.read_text(encoding="utf-8"))
    assert HOSTILE in page.words and '" onload="alert(2)' in page.words
    own = [e for e in page.elements if e[0] == "script" and "type" not in e[1]]
    assert len(own) == 3  # what the template has
    assert not any("onload" in attributes for _, attributes in page.elements)
    assert not any("alert(" in script for script in page.scripts if script[:1] != "{")
    labels = {chart["y"] for chart in page.charts()}
    assert f"x {HOSTILE}" in labels  # the same text in the charts
    assert "The intervals and the tests of the residuals were left out" in page.words
    quantities = {a.get("data-experiment") for t, a in page.elements if t == "figure"}
    assert HOSTILE in quantities


def test_descents_have_a_report(tmp_path):
    problem = dd.Problem(dd.models.Logistic(1.0, 1.0), dd.Constant(2.6), tau=0.5)
    fit = dd.fit(problem, logistic_data(), optimizer=dd.Adam(0.03), epochs=5)
    fit.report(tmp_path / "fit.html")
    page = Page((tmp_path / "fit.html").read_text())
    assert "The descent" in page.words and "Profiles" not in page.words
    losses = page.charts()[-1]["series"][0]["y"]
    np.testing.assert_allclose(losses, np.log10(fit.losses), rtol=1e-4)


def test_a_saved_fit_gets_a_report(fit, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    fit.save("fit.json")
    assert run("report", "fit.json", "--until", 14, "--out", "page.html") == 0
    band = Page(Path("page.html").read_text()).charts()[0]["series"][0]
    assert band["x"][-1] == 14
    assert "no such file" in refused(capsys, "report", "nothing")
    early = refused(capsys, "report", "fit.json", "--until", 5)
    assert "`--until` is 5.0, but the data end at 10.0" in early
    other = {"page.pdf": "is not the name of a page", ".": "Give the name of a file"}
    for out, message in other.items():
        assert message in refused(capsys, "report", "fit.json", "--out", out)


def test_text_is_marked_and_escaped():
    assert marked("`a<b` & c") == "<code>a&lt;b</code> &amp; c"
    assert marked("a ` b") == "a ` b"


def test_charts_end_no_script():
    series = Series("</script><script>", "dots", "data", np.arange(2.0), np.ones(2))
    text = Chart("a", "b", "c", [series]).as_json()
    assert "<" not in text
    assert json.loads(text)["series"][0]["label"] == "</script><script>"


def test_gaps_stay_gaps():
    y = np.array([1.0, 2.0, np.nan, 3.0, 4.0])
    chart = Chart("a", "b", "c", [Series("s", "line", "curve", np.arange(5.0), y)])
    assert json.loads(chart.as_json())["series"][0]["y"] == [1, 2, None, 3, 4]
    with drawing() as draw:
        (path,) = re.findall(r'class="curve"[^>]* d="([^"]*)"', draw(chart))
    assert path.count("M") == 2


def test_many_values_are_thinned_and_said():
    (dots,), note = data_series(Data(np.arange(10_000.0), np.arange(10_000.0)), 0, 500)
    assert len(dots.y) == 500 and dots.y[-1] == 9999
    assert note == "500 of the 10,000 values are drawn."
    assert list(thinned(3, 5)) == [0, 1, 2]


def shown_ticks(x, y, **options):
    """The labels of the axes of a picture, without their titles."""
    chart = Chart("", "", "", [Series("s", "dots", "data", x, y)], **options)
    with drawing() as draw:
        return [str(text.text) for text in ET.fromstring(draw(chart)).iter("text")]


def test_ticks_are_round_and_written_in_full():
    x = np.array([55.0, 125.0])
    shown = shown_ticks(x, np.array([1e-9, 3e-9]))
    assert shown[:4] == ["60", "70", "80", "90"] and "2e−09" in shown
    assert "1000000.2" in shown_ticks(x, np.array([1e6, 1e6 + 1]))
    assert "0" in shown_ticks(x, np.array([-1e-9, 1.02]))
    wide = shown_ticks(x, np.array([0.0, 12_000.0]), y_is_wide=True)
    assert wide[-6:] == ["0", "1", "10", "100", "1000", "10000"]
    dates = 1577836800.0 + np.array([0.0, 86400 * 366.0])
    assert shown_ticks(dates, x, x_is_date=True)[:2] == ["2020", "Mar"]


@pytest.mark.parametrize(
    "text",
    [
        "x' = r * x * (1 - x(t - tau) / K_max)",
        "x' = where(t > 5, a, exp(-x))^2 - sqrt(abs(x)) * (t > 3 and not x <= 2)",
        "x' = beta * delay(x, gamma(mean = m, shape = k)) - min(x, 2e-7) / x'(t - tau)",
        "a' = c * log(b(t - 2 * tau)) - tanh(a); b' = -b + max(a, 1) + pi",
    ],
)
def test_equations_are_typeset(text):
    picture = typeset(dd.equation(text, history="affine").latex())
    assert picture is not None and ET.fromstring(str(picture)) is not None


def test_what_cannot_be_typeset_is_left():
    assert typeset(r"\unknown{x} &= 1") is None
