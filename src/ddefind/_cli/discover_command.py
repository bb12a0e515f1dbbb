"""`ddefind discover`: find the terms and the delays of an equation from a file."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import ddefind as dd

from .._util.files import nonfinite_as_none, write_whole
from . import options as opt
from .fit_settings import FitSettings, combine_settings, read_data, records_of
from .messages import DOUBTFUL, EXIT_CODES, INTERRUPTED, print_json, quick_start, say
from .parse_options import GivenRange, OptionError, number_or_text, parse_formats

DISCOVER_EXAMPLES = f"""\
\b
Examples:
  ddefind discover data.csv
  ddefind discover data.csv --terms "polynomial(3)" --out found
  ddefind discover data.csv --terms "polynomial(1)" --terms hill --delays 2
  ddefind discover data.csv --terms x --terms "x(t - tau) * exp(-a * x(t - tau))"
  ddefind discover data.csv --known "x' = -0.5 * x" --bounds "tau in [1, 5]"

\b
The file has a column of times and a column for each state. Candidate terms are
polynomial(2), products of up to two states and delayed states; hill, exponential and
saturation, functions of each state and delayed state; and formulas, in which names that
are not states are parameters. --out DIR writes what `ddefind fit --out` does, so that
`ddefind show DIR` and `ddefind predict DIR` go on from there, and discovery.txt,
discovery.json and a figure of the search.

{EXIT_CODES}
"""
# The equation with which data are read before one is found.
_NO_EQUATION = "x' = 0"


@opt.takes("bounds", "seed", "time", "columns", "where", "group", "sheet")
def discover(
    given: dict[str, Any],
    data: opt.DataFiles = None,
    terms: Annotated[
        list[str] | None,
        opt.option(
            "--terms",
            metavar="TERM",
            values=(
                "polynomial(2)",
                "polynomial(3)",
                "hill",
                "exponential",
                "saturation",
            ),
            help="Candidates: polynomial(2) (the default), hill, exponential, "
            'saturation, or a formula such as "x(t - tau)^2".',
        ),
    ] = None,
    delays: Annotated[
        str,
        typer.Option(metavar="N", help="The largest number of delays, from 0 to 3."),
    ] = "1",
    known: Annotated[
        str | None,
        opt.option(
            "--known",
            metavar="TEXT",
            help='Known parts of equations, as "x\' = -0.5 * x". Terms are added.',
        ),
    ] = None,
    out: opt.Folder = None,
    formats: opt.Formats = None,
    quiet: opt.Quiet = False,
    as_json: opt.Json = False,
) -> int:
    """Find the terms and the delays of an equation from a file of measurements."""
    paths = [str(path) for path in data or ()]
    if not paths:
        raise OptionError("Give a file of measurements: `ddefind discover DATA.csv`.")
    files = paths[0] if len(paths) == 1 else paths
    settings = combine_settings(
        None, {**given, "data": files, "equation": _NO_EQUATION}
    )
    figures = parse_formats(formats or (), out)
    with quick_start():
        from .output_folder import check_can_be_folder, check_folder

        if out is not None:
            # The files of an interrupted search are replaced.
            is_known = (out / opt.DISCOVERY.format("json")).is_file()
            (check_can_be_folder if is_known else check_folder)(out)
        measured, _ = read_data(settings, dd.equation(_NO_EQUATION))
        say("\n".join(map(str, records_of(measured))) + "\n", quiet)
        found = dd.discover(
            measured,
            terms or "polynomial(2)",
            delays=delays,  # type: ignore
            known=known,
            parameters={
                name: dd.Parameter(lower=each.lower, upper=each.upper)
                for name, each in settings.bounds.items()
            },
            seed=settings.seed,
            progress=False if quiet else None,
        )
        try:
            if as_json:
                print_json(found.to_dict())
            else:
                typer.echo(str(found))
        finally:
            if out is not None:
                names = _write(out, found, records_of(measured), settings, figures)
                say(f"Written to {out}: {', '.join(names)}", quiet)
    if found.interrupted:
        return INTERRUPTED
    is_good = found.fit is not None and found.fit.status.ok and not found.fit.rejected
    return 0 if is_good else DOUBTFUL


def _write(
    out: Path,
    found: "dd.Discovery",
    given: "list[dd.Data]",
    settings: FitSettings,
    formats: Sequence[str],
) -> list[str]:
    """Write the folder of the fit, if there is one, and the files of the discovery."""
    from .output_folder import figure_files, write_folder

    names: Sequence[str] = ()
    if (fit := found.fit) is not None:
        inputs = _inputs_of_fit(found, given, _settings_of_fit(found, settings))
        names, _ = write_folder(out, fit, fit.file_content(), inputs, formats)
    else:
        out.mkdir(parents=True, exist_ok=True)
    files = figure_files(found.plot(), "discovery", formats)
    files[opt.DISCOVERY.format("txt")] = f"{found}\n"
    text = json.dumps(nonfinite_as_none(found.to_dict()), indent=2, ensure_ascii=False)
    files[opt.DISCOVERY.format("json")] = text + "\n"
    for name, content in files.items():
        write_whole(out / name, content)
    return [*names, *files]


def _inputs_of_fit(
    found: "dd.Discovery", given: "list[dd.Data]", settings: FitSettings
) -> tuple[FitSettings, dict[str, bytes]]:
    """Return the settings of the last fit with paths within the folder, and the files
    at these paths. A search moves each experiment to begin at 0, which a fit cannot:
    experiments that begin later are written anew, to one file."""
    from .output_folder import INPUT, read_inputs, study_csv

    if not isinstance(found.data, tuple) or all(data.t[0] == 0 for data in given):
        return read_inputs(settings)
    group, place = settings.group or opt.EXPERIMENT, f"{INPUT}/searched.csv"
    settings = replace(
        settings,
        data=place,
        group=group,
        time="t",
        columns=list(found.data[0].data.names),
        where={},
        sheet=None,
        time_zero=0.0,
    )
    return settings, {place: study_csv(group, found.data).encode()}


def _settings_of_fit(found: "dd.Discovery", settings: FitSettings) -> FitSettings:
    """Return the settings with which `ddefind fit` repeats the last fit."""
    fit: Any = found.fit
    text = "; ".join(
        line for line in str(found.equation).splitlines() if "#" not in line
    )
    history = found.equation.history
    bounds, start = {}, {}
    named = {*fit.names} & {*found.equation.names}
    for name, each in found.parameters.items():
        if not isinstance(each, dd.Parameter):
            continue
        if (each.lower, each.upper) != (None, None):
            lower = -math.inf if each.lower is None else each.lower
            bounds[name] = GivenRange(
                lower, math.inf if each.upper is None else each.upper
            )
        if name in named and each.start is not None:
            start[name] = float(each.start)
    time_zero = settings.time_zero
    if not isinstance(found.data, tuple) and found.data.origin != 0.0:
        time_zero = number_or_text(str(found.data.origin))
    return replace(
        settings,
        equation=text,
        history=None if history == "constant" else history,
        time_zero=time_zero,
        starts=fit.starts,
        start=dict(sorted(start.items())),
        bounds=bounds,
    )
