"""How far the sweep of a folder is: read from its files, while it may be at work."""

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import final

from . import logs
from .lock import is_locked
from .logs import ERROR, whole_records
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
    # Of each number the last record counts.
    ends = {
        record["number"]: (record["status"], record["at"], ERROR in record)
        for record, _, _ in whole_records(folder / logs.NAME)
    }
    times = sorted(at for _, at, _ in ends.values())[-_RECENT:]
    runs, left = is_locked(folder), None
    if runs and len(times) > 1 and times[-1] > times[0]:
        # Until now, since records come in chunks: what is out takes its time, too.
        speed = (len(times) - 1) / (max(time.time(), times[-1]) - times[0])
        left = (manifest.tasks - len(ends)) / speed
    return Overview(
        manifest.about,
        manifest.tasks,
        len(ends),
        sum(is_failed for _, _, is_failed in ends.values()),
        runs,
        dict(Counter(status for status, _, _ in ends.values())),
        left,
        times[-1] if times else None,
    )
