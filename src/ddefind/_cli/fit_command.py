"""`ddefind fit` and `ddefind show`."""

import math
from pathlib import Path
from typing import Any

import typer

from .._results.saved_file import read_saved
from . import options as opt
from .fit_file import FitFile, merged
from .messages import (
    CODES,
    DOUBTFUL,
    INTERRUPTED,
    Talk,
    in_options,
    print_json,
    refusals,
)
from .parse_options import (
    assignments,
    bounds as read_bounds,
    history as read_history,
    parse_number,
)
from .startup import quick_start

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

{CODES}
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
    starts: opt.Starts = None,
    seed: opt.FitSeed = None,
    time: opt.Time = None,
    columns: opt.Columns = None,
    time_zero: opt.TimeZero = None,
    config: opt.Config = None,
    out: opt.Folder = None,
    quiet: opt.Quiet = False,
    as_json: opt.Json = False,
) -> None:
    """Learn parameters, delay and history from a file of measurements."""
    with refusals():
        request = merged(
            config,
            {
                "data": None if data is None else str(data),
                "time": time,
                "columns": [name for text in columns or () for name in text.split(",")],
                "time_zero": _time(time_zero),
                "equation": equation,
                "model": model,
                "history": read_history(history or ()),
                "observe": observe,
                "starts": starts,
                "seed": seed,
                "set": assignments("--set", known or ()),
                "start": assignments("--start", start or ()),
                "bounds": read_bounds(bounds or ()),
            },
        )
        with quick_start():
            code = _fit(request, out, Talk(quiet), as_json)
    raise typer.Exit(code)


def _time(text: str | None) -> float | str | None:
    if text is None:
        return None
    value = parse_number(text)
    return text if value is None else value


def _fit(request: FitFile, out: Path | None, talk: Talk, as_json: bool) -> int:
    """Fit, show and write; the exit code."""
    # Loading JAX takes a second: nobody waits for it to learn of a misspelt option.
    from .output_folder import check_folder, read_inputs, write_folder

    if out is not None:
        check_folder(out)
    data, model = _read(request)
    inputs = read_inputs(request)
    talk.say(in_options(str(data)) + "\n")
    found = _found(request, data, model, talk)
    if not math.isfinite(found.loss):
        typer.echo(f"Error: {found.message}", err=True)
        return DOUBTFUL
    content = found.file_content()
    if as_json:
        print_json(_plain(content))
    else:
        typer.echo(content["text"])
    if out is not None:
        names = write_folder(out, found, content, inputs)
        talk.say(f"Written to {out}: {', '.join(names)}")
    # Without intervals, least squares was interrupted while it computed them.
    interrupted = content["kind"] == "estimate" and content["profiles"] is None
    if interrupted:
        talk.say("Interrupted: the intervals are left out.")
    if interrupted or content["status"] == "interrupted":
        return INTERRUPTED
    return 0 if found.status.ok else DOUBTFUL


def _read(request: FitFile) -> tuple[Any, Any]:
    """The data and the model."""
    import ddefind as dd

    from .model_file import read_model

    assert request.data is not None
    data = dd.read_csv(
        request.data,
        time=request.time,
        columns=request.columns,
        start=request.time_zero,
    )
    model = read_model(
        request.equation, request.model, request.history, request.observe
    )
    return data, model


def _found(request: FitFile, data: Any, model: Any, talk: Talk) -> Any:
    import ddefind as dd

    starts = request.starts
    return dd.fit(
        model,
        data,
        parameters=_parameters(request),
        optimizer=None if starts is None else dd.LeastSquares(starts=starts),
        seed=request.seed,
        progress=False if talk.quiet else None,
    )


def _parameters(request: FitFile) -> dict[str, Any]:
    import ddefind as dd

    parameters: dict[str, Any] = {k: dd.Fixed(v) for k, v in request.set.items()}
    for name in {**request.start, **request.bounds}:
        lower, upper = request.bounds.get(name, (None, None))
        parameters[name] = dd.Parameter(request.start.get(name), lower, upper)
    return parameters


def show(result: opt.Result, as_json: opt.Json = False) -> None:
    """Show a fit that was written earlier."""
    with refusals():
        content = read_saved(result)
        try:
            if as_json:
                print_json(_plain(content))
            else:
                typer.echo(_shown(content))
        except (KeyError, TypeError):
            raise ValueError(f"{result}: its parts do not belong together.") from None


def _shown(content: dict[str, Any]) -> str:
    """The model, the data and the table."""
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


def _plain(content: dict[str, Any]) -> dict[str, Any]:
    """What a program wants to know of a fit; the rest is in the file."""
    names = ("kind", "table", "noise", "loss", "status", "message", "seconds")
    return {name: content[name] for name in (*names, "problem") if name in content}
