"""`ddefind fit`: learn parameters, delay and history from a file of measurements."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from . import options as opt
from .figure_formats import parse_formats
from .fit_settings import MULTIPLE_SHOOTING, FitSettings, combine_settings
from .messages import (
    DOUBTFUL,
    EXIT_CODES,
    INTERRUPTED,
    Messages,
    errors_as_messages,
    in_options,
    print_json,
)
from .parse_options import (
    parse_assignments,
    parse_bounds,
    parse_history,
    parse_number,
)
from .show_command import printed_as_json
from .startup import quick_start

if TYPE_CHECKING:
    from .._data.data import Data
    from .._equation.equation import Equation
    from .._problem.problem import Problem

FIT_EXAMPLES = f"""\
\b
Examples:
  ddefind fit data.csv -e "x' = r * x * (1 - x(t - tau) / K)"
  ddefind fit data.csv -e "x' = -k * x(t - tau)" --history affine --out result
  ddefind fit data.csv -e "..." --set m=8 --start r=1 --bounds "K in [0, 10]"
  ddefind fit data.csv --model model.py:problem --starts 100 --seed 1
  ddefind fit --config result/fit.toml --out again

\b
The file has a column of times (t, time, date ...) and a column for each quantity,
named as the states. Empty cells are missing values; x_sd holds the standard deviations
of x. Start values are not needed: many are tried.

{EXIT_CODES}
"""


def fit(
    data: opt.DataFile = None,
    equation: opt.Equation = None,
    model: opt.Model = None,
    history: opt.History = None,
    observe: opt.Observe = None,
    known: opt.Known = None,
    start: opt.Guess = None,
    bounds: opt.Range = None,
    method: opt.Method = None,
    starts: opt.Starts = None,
    seed: opt.FitSeed = None,
    solver: opt.Solver = None,
    rtol: opt.Tolerance = None,
    time: opt.Time = None,
    columns: opt.Columns = None,
    time_zero: opt.TimeZero = None,
    config: opt.Config = None,
    out: opt.Folder = None,
    formats: opt.Formats = None,
    quiet: opt.Quiet = False,
    as_json: opt.Json = False,
) -> None:
    """Learn parameters, delay and history from a file of measurements."""
    with errors_as_messages():
        settings = combine_settings(
            config,
            {
                "data": None if data is None else str(data),
                "time": time,
                "columns": [name for text in columns or () for name in text.split(",")],
                "time_zero": _number_or_date(time_zero),
                "equation": equation,
                "model": model,
                "history": parse_history(history or ()),
                "observe": observe,
                "method": method,
                "starts": starts,
                "seed": seed,
                "solver": solver,
                "rtol": rtol,
                "set": parse_assignments("--set", known or ()),
                "start": parse_assignments("--start", start or ()),
                "bounds": parse_bounds(bounds or ()),
            },
        )
        figures = parse_formats(formats or (), out)
        with quick_start():
            code = _fit(settings, out, figures, Messages(quiet), as_json)
    raise typer.Exit(code)


def _number_or_date(text: str | None) -> float | str | None:
    """Return a time as a number, or as it is if it is not one."""
    if text is None:
        return None
    value = parse_number(text)
    return text if value is None else value


def _fit(
    settings: FitSettings,
    out: Path | None,
    formats: Sequence[str],
    messages: Messages,
    as_json: bool,
) -> int:
    """Fit, print the result, write the folder `out` with figures in these `formats`,
    and return the exit code."""
    from .output_folder import check_folder, read_inputs, write_folder

    if out is not None:
        check_folder(out)
    data, model = _read_inputs(settings)
    inputs = read_inputs(settings)
    messages.say(in_options(str(data)) + "\n")
    result = _run_fit(settings, data, model, messages)
    if not math.isfinite(result.loss):
        typer.echo(f"Error: {result.message}", err=True)
        return DOUBTFUL
    content = result.file_content()
    try:
        if as_json:
            print_json(printed_as_json(content))
        else:
            typer.echo(content["text"])
    finally:  # The folder is written even if nobody reads the output to its end.
        if out is not None:
            names = write_folder(out, result, content, inputs, formats)
            messages.say(f"Written to {out}: {', '.join(names)}")
    # Without intervals, least squares was interrupted while it computed them.
    has_no_intervals = content["kind"] == "estimate" and content["profiles"] is None
    if has_no_intervals:
        messages.say("Interrupted: the intervals are left out.")
    if has_no_intervals or content["status"] == "interrupted":
        return INTERRUPTED
    return 0 if result.status.ok else DOUBTFUL


def _read_inputs(settings: FitSettings) -> "tuple[Data, Equation | Problem]":
    """Return the data and the model."""
    import ddefind as dd

    from .model_file import read_model

    assert settings.data is not None
    data = dd.read_csv(
        settings.data,
        time=settings.time,
        columns=settings.columns,
        start=settings.time_zero,
    )
    model = read_model(
        settings.equation, settings.model, settings.history, settings.observe
    )
    return data, model


def _run_fit(
    settings: FitSettings,
    data: "Data",
    model: "Equation | Problem",
    messages: Messages,
) -> Any:
    """Return the result of `ddefind.fit`, with the settings as its arguments."""
    import ddefind as dd

    return dd.fit(
        model,
        data,
        parameters=_parameters(settings),
        optimizer=_method(settings),
        seed=settings.seed,
        solver=_solver(settings),
        progress=False if messages.quiet else None,
    )


def _method(settings: FitSettings) -> Any:
    """Return the method, as the argument `optimizer` of `ddefind.fit`."""
    import ddefind as dd

    if settings.method is None and settings.starts is None:
        return None
    is_shooting = settings.method == MULTIPLE_SHOOTING
    method = dd.MultipleShooting if is_shooting else dd.LeastSquares
    return method() if settings.starts is None else method(starts=settings.starts)


def _solver(settings: FitSettings) -> Any:
    """Return the solver, as the argument of `ddefind.fit`."""
    import ddefind as dd

    if settings.solver in (None, "auto"):
        return "auto"
    if settings.solver == "rk4":
        return dd.RK4()
    solver = dd.Tsit5 if settings.solver == "tsit5" else dd.Radau
    return solver() if settings.rtol is None else solver(rtol=settings.rtol)


def _parameters(settings: FitSettings) -> dict[str, Any]:
    """Return what is known of each parameter, as the argument of `ddefind.fit`."""
    import ddefind as dd

    parameters: dict[str, Any] = {k: dd.Fixed(v) for k, v in settings.set.items()}
    for name in {**settings.start, **settings.bounds}:
        lower, upper = settings.bounds.get(name, (None, None))
        parameters[name] = dd.Parameter(settings.start.get(name), lower, upper)
    return parameters
