"""How far the sweep of a folder is: read from its files, while it may be at work."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import final

from . import logs
from .lock import is_locked
from .logs import FileLog
from .manifest import read_manifest

# The speed is that of the last records.
_RECENT = 200


@final
@dataclass(frozen=True)
class Overview:
    """How far a sweep is. `statuses` counts how its fits ended; `seconds_left` is None
    if it does not run or has no two records yet; `last` is the time of the last record,
    in seconds since 1970."""

    about: str
    tasks: int
    done: int
    failed: int
    runs: bool
    statuses: dict[str, int]
    seconds_left: float | None
    last: float | None


def overview(folder: Path) -> Overview | None:
    """How far the sweep of a folder is; None if there is none."""
    manifest = read_manifest(folder)
    if manifest is None:
        return None
    log = FileLog(folder / logs.NAME, is_read_only=True)
    records = [log.record(number) for number in log.numbers()]
    times = sorted(record["at"] for record in records)[-_RECENT:]
    counts: dict[str, int] = {}
    for record in records:
        counts[record["status"]] = counts.get(record["status"], 0) + 1
    runs, left = is_locked(folder), None
    if runs and len(times) > 1 and times[-1] > times[0]:
        # Until now, since records come in chunks: what is out takes its time, too.
        speed = (len(times) - 1) / (max(time.time(), times[-1]) - times[0])
        left = (manifest.tasks - len(records)) / speed
    return Overview(
        manifest.about,
        manifest.tasks,
        len(records),
        len(log.failed),
        runs,
        counts,
        left,
        times[-1] if times else None,
    )
