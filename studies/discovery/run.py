"""Many cases side by side, a process for each core. Results are a line of a file each,
written as they come; cases that the file has are not computed again."""

import json
import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from .cases import run_case

# A system, a noise level and a seed.
Case = tuple[str, float, int]


def run(cases: Sequence[Case], file: Path, processes: int, seconds: float) -> None:
    """Compute all cases that the file does not have, until the time is over."""
    end, done = time.monotonic() + seconds, {case_of(each) for each in read(file)}
    spawn = multiprocessing.get_context("spawn")
    with (
        open(file, "a", encoding="utf-8") as log,
        ProcessPoolExecutor(processes, spawn, _prepare) as pool,
    ):
        futures = [pool.submit(run_case, *case) for case in cases if case not in done]
        try:
            for future in as_completed(futures, max(end - time.monotonic(), 1.0)):
                result = future.result()
                log.write(json.dumps(result) + "\n")
                log.flush()
                shown = ("system", "level", "seed", "success", "seconds")
                print(*(result[key] for key in shown), flush=True)
        except TimeoutError:
            for process in list((pool._processes or {}).values()):
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)


def read(file: Path) -> list[dict[str, Any]]:
    """The results that a file holds, in the order of their cases."""
    if not file.exists():
        return []
    results = map(json.loads, file.read_text("utf-8").splitlines())
    return sorted(results, key=case_of)


def case_of(result: dict[str, Any]) -> Case:
    """The case of a result."""
    return result["system"], result["level"], result["seed"]


def _prepare() -> None:
    """A core for each process, if there is more than one."""
    number = multiprocessing.current_process()._identity[0] - 1
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})
