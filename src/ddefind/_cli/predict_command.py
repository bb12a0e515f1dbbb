"""`ddefind predict`: predict with a saved fit; and `ddefind report`: make its report
again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ddefind as dd

from .._util.errors import did_you_mean, quoted
from .._util.files import write_whole
from . import options as opt
from .messages import EXIT_CODES, Messages, errors_as_messages, print_json, quick_start
from .parse_options import OptionError, check_level, number_or_text

if TYPE_CHECKING:
    from .._inference.predict import Prediction
    from .._results.result import AbstractFit


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
        from .output_folder import load_fit

        fits = _chosen(load_fit(result), experiment)
        predictions = {
            label: (fit.data, fit.predict(last_time(fit, until), level=share))
            for label, fit in fits.items()
        }
        _show(predictions, out, Messages(quiet), as_json)


def _chosen(
    fit: "dd.Estimate", experiment: str | None
) -> "dict[str | None, dd.Estimate]":
    """Return the experiments to be predicted by their labels, or the only fit, without
    a label."""
    views = fit.experiments
    if experiment is None:
        return {**views} if views else {None: fit}
    if experiment not in views:
        hint = did_you_mean(experiment, views) if views else " It has only one."
        raise OptionError(
            f"`--experiment`: the fit has no experiment {quoted(experiment)}.{hint}"
        )
    return {experiment: views[experiment]}


def last_time(fit: "AbstractFit", text: str | None) -> float:
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


def _show(
    predictions: "dict[str | None, tuple[dd.Data, Prediction]]",
    out: opt.PredictionFile,
    messages: Messages,
    as_json: bool,
) -> None:
    """Print the predictions, and write them to the file `out`."""
    from .output_folder import csv_text

    rows, tables, notes = [], [], {}
    for label, (data, prediction) in predictions.items():
        name = {} if label is None else {opt.EXPERIMENT: label}
        rows += [{**name, **row} for row in _rows(data, prediction)]
        title = "" if label is None else f"{label}\n"
        tables.append(title + _table(data, prediction))
        notes |= dict.fromkeys(prediction.notes)
    if as_json:
        _, one = next(iter(predictions.values()))
        print_json({"level": one.level, "rows": rows, "notes": list(notes)})
    else:
        typer.echo("\n\n".join(tables))
    if out is not None:
        write_whole(out, csv_text(rows))
        messages.say(f"Written to {out}: {len(rows)} times.")


def _rows(data: "dd.Data", prediction: "Prediction") -> list[dict[str, Any]]:
    """Return a row for each time, with the times of the source of the data."""
    from .._data.times import source_times

    name, times = source_times(data, prediction.t)
    columns: dict[str, Any] = {name: times}
    bands = prediction.known_bands()
    for c, quantity in enumerate(prediction.names):
        columns[quantity] = prediction.mean[:, c].tolist()
        for band, values in bands.items():
            columns[f"{quantity}_{band}"] = values[:, c].tolist()
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


def _table(data: "dd.Data", prediction: "Prediction") -> str:
    """Return the printed table and the notes on its bands. It shows times after the
    data or, if there are none, all times."""
    import numpy as np

    from .._data.times import source_times
    from .._util.shown import Shown

    later = np.flatnonzero(prediction.t >= data.T)
    shown = later if len(later) > 1 else np.arange(len(prediction.t))
    shown = shown[
        np.unique(np.linspace(0, len(shown) - 1, _PRINTED_ROWS).round().astype(int))
    ]
    name, times = source_times(data, prediction.t[shown])
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
    with errors_as_messages(), quick_start():
        from .._results.result import html_report
        from .output_folder import CONFIG, load_any_fit

        place = _place(result, out)
        fit = load_any_fit(result)
        last = None
        if until is not None:
            if not hasattr(fit, "predict"):
                raise OptionError("`--until`: a fit by gradient descent has no bands.")
            views = fit.experiments
            last = last_time(next(iter(views.values()), fit), until)
        config = result / CONFIG
        settings = config.read_text(encoding="utf-8") if config.is_file() else None
        write_whole(place, html_report(fit, last, settings))
        Messages(quiet).say(f"Written to {place}. Open it in a browser.")


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
