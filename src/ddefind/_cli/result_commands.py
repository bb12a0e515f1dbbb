"""Commands that read a saved fit: `ddefind show` prints it, `compare` compares several,
`predict` predicts with it, `report` makes its report again, and `profile` says how far
each of its parameters can move."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ddefind as dd

from .._results.saved_file import read_saved
from .._util.errors import did_you_mean, quoted
from .._util.files import write_whole
from . import options as opt
from .messages import EXIT_CODES, print_json, quick_start, say
from .parse_options import (
    OptionError,
    check_level,
    number_or_text,
    parse_formats,
    parse_names,
    parse_real,
)

if TYPE_CHECKING:
    from .._inference.predict import Prediction
    from .._inference.profile import Profile
    from .._results.result import AbstractFit


def show(result: opt.Result, as_json: opt.Json = False) -> None:
    """Show a fit that was written earlier."""
    content = read_saved(result)
    try:
        if as_json:
            print_json(printed_as_json(content))
        else:
            found = _sentences_in(result if result.is_dir() else result.parent)
            blank = [""] if found else []
            typer.echo("\n".join([_text(content), *blank, *found]))
    except (KeyError, TypeError):
        raise ValueError(f"{result}: its parts do not belong together.") from None


def _sentences_in(folder: Path) -> list[str]:
    """Return the sentences of the discovery whose fit is in a folder; none if there was
    no discovery, or if its file cannot be read."""
    try:
        text = (folder / opt.DISCOVERY.format("json")).read_text("utf-8")
        found = json.loads(text)["sentences"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [sentence for sentence in found if isinstance(sentence, str)]


def _text(content: dict[str, Any]) -> str:
    """Return the model, the data in one line, and the table of a saved fit."""
    lines = []
    problem = content["problem"] or {}
    if "equation" in problem:
        lines += problem["equation"].split("; ")
        for name in ("history", "observe"):
            if isinstance(problem[name], str | list):
                lines.append(f"# {name}: {problem[name]}")
    data = content["data"]
    label = data["label"] or "data"
    times, names = len(data["t"]), ", ".join(data["names"])
    lines += [f"# {label}: {times} times, {names}", "", content["text"]]
    return "\n".join(lines)


def printed_as_json(content: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a saved fit that `--json` prints: not the data, for one."""
    names = ("kind", "table", "noise", "loss", "status", "message", "seconds")
    return {name: content[name] for name in (*names, "problem") if name in content}


COMPARE_EXAMPLES = f"""\
\b
Example:
  ddefind fit data.csv -e "x' = r * x * (1 - x(t - tau) / K)" --out delayed
  ddefind fit data.csv -e "x' = r * x * (1 - x / K)" --out plain
  ddefind compare delayed plain

\b
Prints the information criteria of each fit, the lowest BIC first. All fits must be of
the same data. The code of a model in a file (--model) is run.

{EXIT_CODES}
"""


def compare(results: opt.Results, as_json: opt.Json = False) -> None:
    """Compare fits of the same data, best first."""
    labels = [str(result) for result in results]
    for label in labels:
        if labels.count(label) > 1:
            raise OptionError(f"{label} is given twice.")
    if len(results) < 2:
        raise OptionError("Give at least two fits, as `ddefind compare A B`.")
    with quick_start():
        from .output_folder import load_fit

        compared = dd.compare({str(each): load_fit(each) for each in results})
    if as_json:
        print_json(compared.cells().values)
    else:
        typer.echo(str(compared))


PREDICT_EXAMPLES = f"""\
\b
Examples:
  ddefind predict result --until 30
  ddefind predict result --until 2025-06-30 --level 0.9 --out prediction.csv

\b
RESULT is the folder that `ddefind fit --out` wrote. The band holds the curve with the
probability of --level (0.95 by default), and "with noise" a new measurement. Printed
are 12 times after the data; --out writes all 201 times, from the beginning on:
NAME_low and NAME_high are the band, NAME_noisy_low and NAME_noisy_high hold a new
measurement. The code of a model in a file (--model) is run.

{EXIT_CODES}
"""

_PRINTED_ROWS = 12


@opt.takes("level")
def predict(
    given: dict[str, Any],
    result: opt.Result,
    experiment: opt.OneExperiment = None,
    until: opt.Until = None,
    out: opt.PredictionFile = None,
    quiet: opt.Quiet = False,
    as_json: opt.Json = False,
) -> None:
    """Predict with a fit that was written earlier, beyond its data."""
    share = check_level(0.95 if given["level"] is None else given["level"])
    with quick_start():
        from .output_folder import csv_text, load_fit

        rows, tables, notes = [], [], {}
        for label, fit in _chosen(load_fit(result), experiment).items():
            prediction = fit.predict(_last_time(fit, until), level=share)
            name = {} if label is None else {opt.EXPERIMENT: label}
            rows += [{**name, **row} for row in _rows(prediction)]
            title = "" if label is None else f"{label}\n"
            tables.append(title + _table(prediction))
            notes |= dict.fromkeys(prediction.notes)
        if as_json:
            print_json({"level": share, "rows": rows, "notes": list(notes)})
        else:
            typer.echo("\n\n".join(tables))
        if out is not None:
            write_whole(out, csv_text(rows))
            say(f"Written to {out}: {len(rows)} times.", quiet)


def _chosen(
    fit: "dd.Estimate", experiment: str | None
) -> "dict[str | None, dd.Estimate]":
    """Return what to predict: experiments by label, or the only fit without one."""
    views = fit.experiments
    if experiment is None:
        return {**views} if views else {None: fit}
    if experiment not in views:
        hint = did_you_mean(experiment, views) if views else " It has only one."
        raise OptionError(
            f"`--experiment`: the fit has no experiment {quoted(experiment)}.{hint}"
        )
    return {experiment: views[experiment]}


def _last_time(fit: "AbstractFit", text: str | None) -> float:
    """Return the last time of the prediction, counted from time 0 of the fit."""
    from .._data.times import time_of

    until = None if text is None else number_or_text(text)
    last = fit.data.T if until is None else time_of(fit.data, until)
    if last <= fit.time_zero:
        raise OptionError(
            f"`--until` is {until}, which is not after the end of the history, where "
            "the fit begins."
        )
    return last


def _rows(prediction: "Prediction") -> list[dict[str, Any]]:
    """Return a row for each time, with the times of the source of the data."""
    from .._data.times import source_times

    name, times = source_times(prediction.data, prediction.t)
    columns: dict[str, Any] = {name: times}
    bands = prediction.known_bands()
    for c, quantity in enumerate(prediction.names):
        columns[quantity] = prediction.mean[:, c].tolist()
        for band, values in bands.items():
            columns[f"{quantity}_{band}"] = values[:, c].tolist()
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


def _table(prediction: "Prediction") -> str:
    """Return the printed table and the notes on its bands. It shows times after the
    data or, if there are none, all times."""
    import numpy as np

    from .._data.times import source_times
    from .._util.shown import Shown

    data, t = prediction.data, prediction.t
    later = np.flatnonzero(t >= data.T)
    all_shown = later if len(later) > 1 else np.arange(len(t))
    some = np.linspace(0, len(all_shown) - 1, _PRINTED_ROWS).round().astype(int)
    shown = all_shown[np.unique(some)]
    name, times = source_times(data, t[shown])
    texts = [each if isinstance(each, str) else f"{each:.6g}" for each in times]
    return Shown([prediction.cells(shown, name, texts), *prediction.notes]).text()


REPORT_EXAMPLES = f"""\
\b
Examples:
  ddefind report result
  ddefind report result --until 30 --out for-my-colleague.html

\b
RESULT is the folder that `ddefind fit --out` wrote, or a saved fit. The report is one
page of HTML that needs nothing else, to be opened in a browser, sent or printed: the
equation, the estimates in words, charts, tests of the residuals, profiles, prediction,
and how to repeat the fit. By default it goes into that folder, or beside that file. The
code of a model in a file (--model) is run.

{EXIT_CODES}
"""
_Until = Annotated[
    str | None,
    opt.option(
        "--until",
        metavar="TIME",
        help="The last time of the prediction, a number or a date as in the data. By "
        "default it goes on for a quarter of the record.",
    ),
]
_File = Annotated[
    Path | None,
    opt.option(
        "--out",
        metavar="FILE.html",
        help="The file to write. By default it is report.html in the folder of the "
        "fit.",
    ),
]


def report(
    result: opt.Result,
    until: _Until = None,
    out: _File = None,
    quiet: opt.Quiet = False,
) -> None:
    """Write the report of a fit that was written earlier: a page to open or to send."""
    with quick_start():
        from .._results.result import html_report
        from .output_folder import CONFIG, load_any_fit

        place = _place(result, out)
        fit = load_any_fit(result)
        last = None
        if until is not None:
            if not hasattr(fit, "predict"):
                raise OptionError("`--until`: a fit by gradient descent has no bands.")
            views = fit.experiments
            last = _last_time(next(iter(views.values()), fit), until)
        config = result / CONFIG
        settings = config.read_text(encoding="utf-8") if config.is_file() else None
        write_whole(place, html_report(fit, last, settings))
        say(f"Written to {place}. Open it in a browser.", quiet)


def _place(result: Path, out: Path | None) -> Path:
    """Return the file to write."""
    from .._results.result import check_page
    from .output_folder import REPORT

    if out is None:
        return (result if result.is_dir() else result.parent) / REPORT
    if out.is_dir():
        raise OptionError(
            f"`--out`: {out} is a folder. Give the name of a file, as {out / REPORT}."
        )
    check_page("`--out`", out)
    return out


PROFILE_EXAMPLES = f"""\
\b
Examples:
  ddefind profile result
  ddefind profile result --parameter tau --out profiles
  ddefind profile result --parameter r,K --level 0.9 --out profiles --format pdf

\b
RESULT is the folder that `ddefind fit --out` wrote. The profile of a parameter is the
lowest chi-square of the fits in which it is held at a value. The interval ends where
chi-square excludes the value with the confidence of --level, by default that of the
fit. --out DIR writes profiles.png and profiles.csv, a row for each of
these fits with all its parameters. The code of a model in a file (--model) is run.

{EXIT_CODES}
"""


def profile(
    result: opt.Result,
    parameter: Annotated[
        list[str] | None,
        opt.option(
            "--parameter",
            metavar="NAME",
            help="The parameters, as tau or r,K. By default all are profiled.",
        ),
    ] = None,
    level: Annotated[
        str | None,
        opt.option(
            "--level",
            metavar="NUMBER",
            help="The confidence level of the intervals, by default that of the fit.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        opt.option(
            "--out",
            metavar="DIR",
            help="Folder for the figure and the table of the profiles, that of the fit "
            "or another one.",
        ),
    ] = None,
    formats: opt.Formats = None,
    quiet: opt.Quiet = False,
    as_json: opt.Json = False,
) -> None:
    """Show how far each parameter can move before the fit becomes too bad."""
    share = None if level is None else check_level(parse_real("--level", level))
    names = parse_names("--parameter", parameter or ())
    figures = parse_formats(formats or (), out)
    with quick_start():
        from .output_folder import check_can_be_folder, load_fit, write_profiles

        if out is not None:
            check_can_be_folder(out)
        fit = load_fit(result)
        share = fit.level if share is None else share
        progress = False if quiet else None
        if not names:
            # Profiles that are computed together inform each other, and may improve the
            # fit. Weights of networks have none.
            fit = fit.with_intervals(share, progress=progress)
            names = [row["name"] for row in fit.summary()]
        profiles = [fit.profile(name, share, progress=progress) for name in names]
        if as_json:
            print_json([_profile_values(fit, each, share) for each in profiles])
        else:
            texts = [_profile_in_words(fit, each, share) for each in profiles]
            typer.echo("\n\n".join(texts))
        if out is not None:
            written = write_profiles(out, fit, profiles, share, figures)
            say(f"Written to {out}: {', '.join(written)}", quiet)


def _profile_in_words(fit: "dd.Estimate", profile: "Profile", level: float) -> str:
    """Return the interval of a parameter in words, and the verdict on it."""
    from .._results.printed_table import interval_in_words

    text = interval_in_words(fit, profile, level)
    reason = fit.assessment and fit.verdicts[profile.name].reason
    return f"{text} {reason}" if reason else text


def _profile_values(
    fit: "dd.Estimate", profile: "Profile", level: float
) -> dict[str, Any]:
    from .._results.printed_table import limits_of

    limits = limits_of(fit, profile)
    return {
        "name": profile.name,
        "estimate": profile.estimate,
        "level": level,
        "low": limits.low,
        "high": limits.high,
        "values": profile.values.tolist(),
        "chi_square_rise": (profile.r**2).tolist(),
    }
