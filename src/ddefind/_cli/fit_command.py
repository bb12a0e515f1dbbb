"""`ddefind fit`: learn parameters, delay and history from a file of measurements."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

import ddefind as dd

from .._fitting.fit_options import SETTINGS
from . import options as opt
from .fit_settings import (
    FitSettings,
    combine_settings,
    fit_arguments,
    read_data,
    records_of,
)
from .messages import DOUBTFUL, EXIT_CODES, INTERRUPTED, print_json, quick_start, say
from .parse_options import is_equation_file, parse_formats
from .result_commands import printed_as_json

FIT_EXAMPLES = f"""\
\b
Examples:
  ddefind fit data.csv -e "x' = r * x * (1 - x(t - tau) / K)"
  ddefind fit data.csv -e "x' = -k * x(t - tau)" --history affine --out result
  ddefind fit data.csv -e "..." --set m=8 --start r=1 --bounds "K in [0, 10]"
  ddefind fit data.csv -e "..." --columns "hare=Hare (n/km2)" --positive all
  ddefind fit data.csv --model model.py:problem --starts 100 --seed 1
  ddefind fit cultures.csv --group culture --values food --per-experiment k -e "..."
  ddefind fit hare.csv -e "..." --inputs u=weather.csv:T --noise poisson
  ddefind fit --config result/fit.toml --out again

\b
The file has a column of times (t, time, date ...) and a column for each quantity,
named as the states. Empty cells are missing values; x_sd holds the standard deviations
of x, and <0.1 is a value below a limit. Start values are not needed: many are tried.
Several files, or a column that --group names, are experiments that share parameters.

{EXIT_CODES}
"""


@opt.takes(*(name for name, option in SETTINGS.items() if option.help))
def fit(
    given: dict[str, Any],
    data: opt.DataFiles = None,
    config: opt.Config = None,
    out: opt.Folder = None,
    formats: opt.Formats = None,
    quiet: opt.Quiet = False,
    as_json: opt.Json = False,
) -> int:
    """Learn parameters, delay and history from a file of measurements."""
    files = _files(data or [], given["equation"], given["model"])
    settings = combine_settings(config, {**given, **files})
    figures = parse_formats(formats or (), out)
    with quick_start():
        return _fit(settings, out, figures, quiet, as_json)


def _files(
    files: Sequence[Path], equation: str | None, model: str | None
) -> dict[str, Any]:
    """Return the files of measurements and the model: without another model, the first
    of several files if it holds an equation."""
    paths = [str(path) for path in files]
    if equation is None and model is None and len(paths) > 1:
        if is_equation_file(paths[0]):
            model, *paths = paths
    return {"data": paths[0] if len(paths) == 1 else paths, "model": model}


def _fit(
    settings: FitSettings,
    out: Path | None,
    formats: Sequence[str],
    quiet: bool,
    as_json: bool,
) -> int:
    """Fit, print the result, write the folder `out` with figures in these `formats`,
    and return the exit code."""
    from .model_file import read_model
    from .output_folder import REPORT, check_folder, read_inputs, write_folder

    if out is not None:
        check_folder(out)
    model = read_model(vars(settings))
    data, beside = read_data(settings, model)
    inputs = read_inputs(settings)
    say("\n".join(map(str, records_of(data))) + "\n", quiet)
    arguments = fit_arguments(settings, model)
    arguments["parameters"] |= beside.pop("parameters", {})
    arguments |= {**beside, "progress": False if quiet else None}
    result: Any = dd.fit(model, data, **arguments)
    if not math.isfinite(result.loss):
        typer.echo(f"Error: {result.message}", err=True)
        return DOUBTFUL
    known = {note for each in records_of(data) for note in each.notes}
    for note in result.data.notes:
        if note not in known:
            say(f"{note}\n", quiet)
    is_complete = True
    try:
        if as_json:
            print_json(printed_as_json(result.file_content()))
        else:
            typer.echo(str(result))
    finally:  # The folder is written even if nobody reads the output to its end.
        if out is not None:
            content = result.file_content()
            names, is_complete = write_folder(out, result, content, inputs, formats)
            say(f"Written to {out}: {', '.join(names)}", quiet)
            if is_complete:
                say(f"Open {out / REPORT} in a browser to see the report.", quiet)
    # Without intervals, least squares was interrupted while it computed them.
    is_estimate = hasattr(result, "assessment")
    has_no_intervals = is_estimate and result.assessment is None
    if has_no_intervals:
        say("Interrupted: the intervals are left out.", quiet)
    if not is_complete:
        say("Interrupted: the folder lacks the curve, figure or report.", quiet)
    if has_no_intervals or not is_complete or result.status.name == "interrupted":
        return INTERRUPTED
    is_rejected = is_estimate and result.rejected
    return 0 if result.status.ok and not is_rejected else DOUBTFUL
