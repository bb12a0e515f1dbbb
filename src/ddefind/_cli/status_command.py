"""`ddefind status`: how far a sweep is."""

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as opt
from .messages import errors_as_messages, print_json
from .parse_options import OptionError

if TYPE_CHECKING:
    from .._sweeps.overview import Overview

STATUS_EXAMPLES = """\
\b
Example:
  ddefind sweep lakes.toml --out lakes
  ddefind status lakes

\b
It only reads, and can be called while the sweep is at work. The folder is that of
`ddefind sweep --out`, or of `dd.fit_many(..., folder=...)`.
"""

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a sweep.")]


def status(folder: Folder, as_json: opt.Json = False) -> None:
    """Say how far a sweep is, how its fits ended, and how long it will take."""
    with errors_as_messages():
        found = _overviews(folder)
        if as_json:
            print_json([{"fits": name, **vars(each)} for name, each in found.items()])
            return
        for name, each in found.items():
            typer.echo(_sentence(name, each))


def _overviews(folder: Path) -> "dict[str, Overview]":
    """How far each part of a sweep is, by name."""
    from .._sweeps.overview import Overview, overview
    from .sweep_table import PLAN

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
    none = (0, 0, False, {}, None, None)
    return {
        name: overview(folder / name) or Overview("", count, *none)
        for name, count in counts.items()
    }


def _sentence(name: str, part: "Overview") -> str:
    """How far a sweep is, in one line."""
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
    return str(timedelta(seconds=round(seconds)))
