"""The page of a report, put together from its sections."""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from .._util.shown import listed
from .._util.version import __version__
from .sections import (
    Block,
    Code,
    Prose,
    Section,
    Typeset,
    correlations,
    data_and_curve,
    delayed_state,
    descent,
    estimates,
    learned_functions,
    profiles,
    repeat,
    residuals,
    search,
    stability,
)

if TYPE_CHECKING:
    from jinja2 import Template

    from .._results.result import AbstractFit


_PAGE = files("ddefind").joinpath("_report/page")
# The style of the page differs where its scripts run.
_BEGIN = Markup('document.documentElement.classList.add("live")')


def build(
    fit: "AbstractFit", saved: str, settings: str | None, until: float | None
) -> str:
    """Build the whole page from a fit and the text `saved` of its file; `settings` is
    that of the command line's, and `until` the last time of the prediction."""
    from .pictures import drawing

    summary = Section("summary", "Results", [_equation(fit), *estimates(fit)])
    sections = [summary, data_and_curve(fit, until), learned_functions(fit)]
    if hasattr(fit, "setup"):
        estimate: Any = fit
        sections += [residuals(estimate), profiles(estimate)]
        sections += [correlations(estimate), search(estimate)]
        sections += [delayed_state(fit), stability(estimate)]
    else:
        descended: Any = fit
        sections += [descent(descended), delayed_state(fit)]
    sections.append(repeat(fit, saved, settings))
    shown = [each for each in sections if each]
    with drawing() as draw:
        return _template().render(title=_title(fit), sections=shown, draw=draw)


def _title(fit: "AbstractFit") -> str:
    """Name what was fitted: the data by their label, or the states."""
    count = len(fit.experiments)
    if count:
        return f"Fit of {count} experiments"
    return f"Fit of {fit.data.label or listed(fit.data.names)}"


def _equation(fit: "AbstractFit") -> Block:
    """Return the fitted equation, typeset if it is a text."""
    if fit.model is None:
        kinds = [type(part).__name__ for part in (fit.problem.rhs, fit.problem.history)]
        return Prose(f"The model is `{kinds[0]}`, with the history `{kinds[1]}`.")
    from .pictures import typeset

    picture, text = typeset(fit.model.latex()), str(fit.model)
    return Typeset(picture, text) if picture else Code(text)


def _fingerprint(script: str) -> str:
    """Return the hash by which a browser runs this script, and no other one."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def _template() -> "Template":
    """Return the template of a page, with its scripts and styles."""
    from jinja2 import Environment

    def read(name: str) -> Markup:
        return Markup(_PAGE.joinpath(name).read_text(encoding="utf-8"))

    scripts = [_BEGIN, read("uPlot.js"), read("report.js")]
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    fixed = {
        "version": __version__,
        "style": read("uPlot.css") + read("report.css"),
        "licence": read("uPlot-LICENSE.txt"),
        "scripts": scripts,
        "allowed": Markup(" ".join(map(_fingerprint, scripts))),
    }
    return environment.from_string(str(read("report.html")), fixed)
