"""`ddefind sweep`: a table of fits, on the cores of this machine or on a cluster; and
`ddefind status`: how far it is."""

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ddefind as dd

from .._util.files import write_whole
from . import options as opt
from .fit_settings import fit_arguments
from .messages import DOUBTFUL, EXIT_CODES, INTERRUPTED, print_json, quick_start, say
from .parse_options import OptionError, parse_whole
from .sweep_table import PLAN, TABLE, Group, SweepTable, read_groups, read_sweep_table

if TYPE_CHECKING:
    from .._sweeps.database import Overview


SWEEP_EXAMPLES = f"""\
\b
Examples:
  ddefind sweep lakes.toml --out lakes
  ddefind sweep lakes.toml --out lakes --workers 2
  ddefind sweep lakes.toml --out lakes --scheduler tcp://10.0.0.1:8786
  ddefind status lakes

\b
The table is a TOML file, here of 2 equations x 2 kinds of settings for each file:
  files = ["lakes/*.csv"]
\b
  [equations]
  plain = "x' = r * x * (1 - x / K)"
  delayed = "x' = r * x * (1 - x(t - tau) / K)"
\b
  [settings.usual]
  [settings.robust]
  noise = "student"

\b
Settings are as in a fit.toml, and may be left out. The same command, given again, goes
on where the sweep stopped.

{EXIT_CODES}
"""

STATUS_EXAMPLES = """\
\b
Example:
  ddefind sweep lakes.toml --out lakes
  ddefind status lakes

\b
It only reads, and can be called while the sweep is at work. DIR is the folder given to
`ddefind sweep --out`, or to `dd.fit_many(..., folder=...)`.
"""

Table = Annotated[
    Path,
    typer.Argument(
        metavar="FILE.toml",
        help="The files, equations and settings of the fits.",
        show_default=False,
    ),
]
Folder = Annotated[
    Path | None,
    opt.option(
        "--out",
        metavar="DIR",
        help="The folder in which finished fits are kept, and from which it goes on.",
    ),
]
Workers = Annotated[
    str | None,
    opt.option(
        "--workers",
        metavar="N",
        help="How many processes of this machine fit, by default one for each core.",
    ),
]
Scheduler = Annotated[
    str | None,
    opt.option(
        "--scheduler",
        metavar="ADDRESS",
        help="The address of a scheduler of dask, whose workers fit instead.",
    ),
]
Retry = Annotated[
    bool,
    typer.Option(
        "--retry-failed", help="Make the fits again that ended with an error."
    ),
]
SweptFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder of a sweep.")
]


def sweep(
    table: Table,
    out: Folder = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    retry_failed: Retry = False,
    quiet: opt.Quiet = False,
) -> int:
    """Make many fits: files x equations x settings, kept in a folder as they end."""
    read = read_sweep_table(table)
    if out is None:
        raise OptionError("Give the folder in which the fits are kept: `--out DIR`.")
    count = None if workers is None else parse_whole("--workers", workers, 1)
    if count is not None and scheduler is not None:
        raise OptionError(
            "`--workers` are processes of this machine, and `--scheduler` has its own "
            "workers: give one of them."
        )
    with quick_start():
        return _sweep(read, out, count, scheduler, retry_failed, quiet)


def _sweep(
    table: SweepTable,
    out: Path,
    workers: int | None,
    scheduler: str | None,
    retry_failed: bool,
    quiet: bool,
) -> int:
    """Make the fits of all groups, and return the exit code."""
    from .._sweeps.database import NAME, locked
    from .output_folder import csv_text

    groups = read_groups(table)
    rows: list[dict[str, Any]] = []
    is_doubtful = False
    with ExitStack() as stack:
        stack.enter_context(locked(out))
        if (out / NAME).exists():
            raise OptionError(
                f"`--out`: {out} holds fits of `dd.fit_many`. Choose another folder."
            )
        executor, where = stack.enter_context(_workers(workers, scheduler))
        stack.enter_context(_planned(out / PLAN, table))
        say(f"{table}, {where}.", quiet)
        for group, model, data in groups:
            batch = dd.fit_many(
                model,
                data,
                **fit_arguments(group.settings, model),
                intervals=group.settings.level is not None,
                executor=executor,
                folder=out / group.name,
                retry_failed=retry_failed,
                progress=False if quiet else None,
            )
            of_group = _table_rows(table.files, group, batch)
            rejected = sum(row.get("rejected") == "yes" for row in of_group)
            _print(group, batch, rejected)
            rows += of_group
            chance = 0.05 * len(batch)  # as many fits of a right model are rejected
            is_doubtful |= rejected > chance + 3 * math.sqrt(chance * 0.95)
            is_doubtful |= not all(status.ok for status in batch.statuses)
            if any(status.name == "pending" for status in batch.statuses):
                say("Interrupted. The same command goes on from here.", quiet)
                return INTERRUPTED
        # A column that a row does not have is empty.
        columns = dict.fromkeys(name for row in rows for name in row)
        write_whole(out / TABLE, csv_text([columns | row for row in rows]))
        say(f"Written to {out}: {TABLE}", quiet)
    return DOUBTFUL if is_doubtful else 0


def _table_rows(
    files: Sequence[str], group: Group, batch: "dd.FitBatch[Any]"
) -> list[dict[str, Any]]:
    """Make a row for each fit: its file, equation and settings, how it ended, whether
    the residuals reject the model (empty where that cannot be tested), and the
    estimates with standard errors (and intervals, if the settings have a `level`)."""
    rows = []
    for number, (file, status) in enumerate(zip(files, batch.statuses)):
        row: dict[str, Any] = {
            "fit": group.name,
            "file": file,
            "settings": group.settings_name,
            "status": status.name,
        }
        if status.has_fit:
            fit = batch[number]
            rejected = (
                getattr(fit, "rejected", None) if math.isfinite(fit.loss) else None
            )
            row["loss"] = fit.loss
            row["rejected"] = {None: "", True: "yes", False: "no"}[rejected]
            for each in fit.summary():
                name = each["name"]
                row[name] = each["estimate"]
                row[f"{name}_se"] = each["standard_error"]
                if "low" in each:
                    row |= {f"{name}_low": each["low"], f"{name}_high": each["high"]}
        rows.append(row)
    return rows


@contextmanager
def _planned(path: Path, table: SweepTable) -> Iterator[None]:
    """Write the plan of a sweep, from which `ddefind status` reads its parts. If the
    sweep is refused, the folder keeps its former plan."""
    before = path.read_bytes() if path.exists() else None
    plan = {group.name: len(table.files) for group in table.groups}
    write_whole(path, json.dumps(plan, indent=1) + "\n")
    try:
        yield
    except ValueError:
        if before is not None:
            write_whole(path, before)
        raise


def _print(group: Group, batch: "dd.FitBatch[Any]", rejected: int) -> None:
    equation = " ".join((group.settings.equation or "").split())
    text = f"{group.name}: {equation}\n{batch}\n"
    if rejected:
        text += (
            f"In {rejected} of {len(batch)} fits the residuals reject the model (a "
            f"right one: in at most 5%): see the column `rejected` of {TABLE}.\n"
        )
    typer.echo(text)


@contextmanager
def _workers(count: int | None, scheduler: str | None) -> Iterator[tuple[Any, str]]:
    """Yield the executor, and say where the fits are made."""
    from .._sweeps.executors import executor_of
    from .._util.machine import cores

    if scheduler is None:
        count = count or cores()
        with executor_of(count) as executor:
            processes = "1 process" if count == 1 else f"{count} processes"
            yield executor, f"made by {processes} of this machine"
        return
    with _client(scheduler) as client:
        found = len(client.nthreads())
        if not found:
            raise OptionError(
                f"`--scheduler`: {scheduler} has no workers. Start some: "
                f"`dask worker {scheduler} --nthreads 1`."
            )
        yield client, f"made by {found} {'worker' if found == 1 else 'workers'} of dask"


@contextmanager
def _client(address: str) -> Iterator[Any]:
    """Yield a client of dask that is connected to a scheduler."""
    from importlib import import_module

    try:
        distributed = import_module("distributed")
    except ImportError:
        raise OptionError(
            "`--scheduler` needs dask: `pip install 'ddefind[scale]'`."
        ) from None
    try:
        client = distributed.Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError, TimeoutError):
        raise OptionError(
            f"`--scheduler`: nothing answers at {address}. Start a scheduler with "
            "`dask scheduler`, which prints its address, as tcp://10.0.0.1:8786."
        ) from None
    with client:
        yield client


def status(folder: SweptFolder, as_json: opt.Json = False) -> None:
    """Say how far a sweep is, how its fits ended, and how long it will take."""
    found = _overviews(folder)
    if as_json:
        print_json([{"fits": name, **vars(each)} for name, each in found.items()])
        return
    for name, each in found.items():
        typer.echo(_sentence(name, each))


def _overviews(folder: Path) -> "dict[str, Overview]":
    """Return how far each part of a sweep is, by name."""
    from .._sweeps.database import Overview, overview

    whole = overview(folder) if folder.is_dir() else None
    if whole is not None:
        return {folder.name or str(folder): whole}
    plan = folder / PLAN
    if not plan.is_file():
        raise OptionError(
            f"{folder}: this is not the folder of a sweep. Give the one of `ddefind "
            "sweep --out`."
        )
    try:
        parts: Any = json.loads(plan.read_text())
        counts = {str(name): int(count) for name, count in parts.items()}
    except (AttributeError, TypeError, ValueError):
        raise OptionError(f"{plan}: the file is damaged.") from None
    return {
        name: overview(folder / name) or Overview("", count)
        for name, count in counts.items()
    }


def _sentence(name: str, part: "Overview") -> str:
    """Say in one line how far a sweep is."""
    text = f"{name}: {part.done} of {part.tasks} fits"
    if part.statuses:
        counts = sorted(part.statuses.items(), key=lambda pair: -pair[1])
        text += f" ({', '.join(f'{count} {word}' for word, count in counts)})"
    if part.done == part.tasks:
        return f"{text}, done"
    if part.runs:
        left = part.seconds_left
        return text + (", at work" if left is None else f", about {_time(left)} left")
    if part.last is None:
        return f"{text}, not begun"
    return f"{text}, stopped {_time(max(0.0, time.time() - part.last))} ago"


def _time(seconds: float) -> str:
    """Return a number of seconds as 0:01:30."""
    return str(timedelta(seconds=round(seconds)))
