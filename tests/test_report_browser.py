"""Reports in a browser: Chromium, without a window, offline."""

import shutil

import numpy as np
import pytest

import ddefind as dd
from ddefind._cli.examples_command import EQUATION, logistic_data

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    fit = dd.fit(dd.equation(EQUATION), logistic_data(), seed=1)
    path = tmp_path_factory.mktemp("report") / "fit.html"
    fit.report(path)
    return path


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study of two experiments with two quantities, of which one label is hostile."""
    model = dd.equation("x' = -k * x(t - tau); y' = x - y")
    t, random = np.linspace(0, 6, 15), np.random.default_rng(0)
    experiments = []
    for label, b in ((HOSTILE, 1.0), ("high", 2.0)):
        truth = model.problem({"k": 1.0, "tau": 0.5, "b[0]": b, "b[1]": 0.5})
        x = np.asarray(dd.solve(truth, T=6.0)(t)) + 0.05 * random.normal(size=(15, 2))
        experiments.append(dd.Experiment(dd.Data(t, x, names=("x", "y"), label=label)))
    search = dd.LeastSquares(starts=2)
    path = tmp_path_factory.mktemp("study") / "study.html"
    dd.fit(model, experiments, optimizer=search, intervals=False).report(path)
    return path


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser):
    """Opens a page; what it says to the console and fetches is in its `said`."""
    contexts = []

    def open_page(path, **options):
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.said = []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("request", lambda request: page.said.append(request.url))
        page.on("dialog", lambda dialog: page.said.append(dialog.message))
        page.goto(path.as_uri())
        if options.get("java_script_enabled", True):
            figures = page.locator("figure.drawn")
            for i in range(figures.count()):
                figures.nth(i).scroll_into_view_if_needed()
                figures.nth(i).locator("canvas").wait_for()
        return page

    yield open_page
    for context in contexts:
        context.close()


def count(page, selector):
    return page.locator(f"{selector}:visible").count()


def blank(page):
    """How many canvases of charts show nothing."""
    return page.evaluate(
        """[...document.querySelectorAll("figure.drawn canvas")].filter((canvas) => {
        const { width, height } = canvas;
        const content = canvas.getContext("2d").getImageData(0, 0, width, height).data;
        return !content.some((value) => value > 0);
        }).length"""
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_and_nothing_fetched(opened, demo, scheme):
    page = opened(demo, color_scheme=scheme)
    assert page.said == [demo.as_uri()]
    charts = page.locator("figure.drawn").count()
    assert charts == 8 and count(page, "figure.drawn canvas") == charts
    assert blank(page) == 0
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")


def legend(page):
    """What the legend of the first chart says at the cursor, by label."""
    page.wait_for_timeout(100)
    return page.evaluate(
        """Object.fromEntries([...document.querySelector(".u-legend").rows]
        .filter((row) => row.offsetParent)
        .map((row) => [...row.cells].map((cell) => cell.textContent)))"""
    )


def test_values_are_read_off_and_charts_zoomed(opened, demo):
    page = opened(demo)
    chart = page.locator("figure.large .u-over").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 50)
    read = legend(page)
    assert float(read["time"]) == pytest.approx(0.4 * 12.5, abs=0.3)
    low, _, high = read["95% confidence band of the curve"].split()
    assert float(low) <= float(read["fitted curve"]) <= float(high)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 60, steps=4)
    page.mouse.up()
    # The left side of the chart is now where the cursor was.
    page.mouse.move(box["x"] + 1, box["y"] + 50)
    assert float(legend(page)["time"]) == pytest.approx(5.0, abs=0.3)
    page.mouse.dblclick(box["x"] + 1, box["y"] + 50)
    page.mouse.move(box["x"] + 2, box["y"] + 50)
    assert float(legend(page)["time"]) == pytest.approx(0.0, abs=0.3)


def test_light_and_dark_can_be_changed(opened, demo):
    page = opened(demo, color_scheme="light")
    page.click("#theme")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground != "rgb(255, 255, 255)"
    assert page.inner_text("#theme") == "Light"


def test_without_javascript_there_are_pictures(opened, demo):
    page = opened(demo, java_script_enabled=False)
    assert count(page, "figure .picture") == page.locator("figure").count() == 9
    assert count(page, "button") == 0 and count(page, "svg.formula") == 1


def test_paper_gets_the_pictures(opened, demo):
    page = opened(demo, color_scheme="dark")
    page.emulate_media(media="print")
    assert count(page, "figure .picture") == 9
    assert count(page, "canvas") == 0 and count(page, "nav") == 0
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 31, 36)"
    assert page.pdf()[:4] == b"%PDF"


def test_a_narrow_screen_shows_all_of_it(opened, demo):
    page = opened(demo, viewport={"width": 380, "height": 700})
    root = "document.documentElement"
    assert page.evaluate(f"{root}.scrollWidth - {root}.clientWidth") == 0
    assert count(page, "figure.drawn canvas") == 8


def test_quantities_and_experiments_are_chosen(opened, study):
    page = opened(study)
    assert page.said == [study.as_uri()]  # no dialog of the hostile label
    shown = "#course figure"
    assert count(page, shown) == 4
    page.locator("#course select").nth(1).select_option("y")
    assert count(page, shown) == 2
    page.locator("#course select").nth(0).select_option(HOSTILE)
    assert count(page, shown) == 1
    assert page.locator(f"{shown}:visible figcaption").inner_text() == f"{HOSTILE} – y"
    assert page.locator("img").count() == 0
