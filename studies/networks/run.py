"""Many fits side by side: a process for each core."""

import json
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from .one_fit import Case, measure


def _measured(case: Case, seed: int) -> dict[str, Any]:
    try:
        return measure(case, seed)
    except Exception as error:  # one failure is a result, too
        message = f"{type(error).__name__}: {error}"
        return {"case": str(case), "seed": seed, "failed": message[:500]}


def _prepare(folder: str) -> None:
    """One core for each process, and one cache of compiled programs for all."""
    os.environ["OMP_NUM_THREADS"] = "1"
    if hasattr(os, "sched_setaffinity"):
        number = multiprocessing.current_process()._identity[0] - 1
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
    import jax

    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def run(
    tasks: list[tuple[Case, int]], file: Path, processes: int, seconds: float
) -> None:
    """Measure all tasks that the file does not have."""
    end, done = time.monotonic() + seconds, {(r["case"], r["seed"]) for r in read(file)}
    tasks = [(case, seed) for case, seed in tasks if (str(case), seed) not in done]
    spawn = multiprocessing.get_context("spawn")
    folder = (str(file.parent / "compiled"),)
    with (
        open(file, "a", encoding="utf-8") as log,
        ProcessPoolExecutor(processes, spawn, _prepare, folder) as pool,
    ):
        futures = [pool.submit(_measured, case, seed) for case, seed in tasks]
        try:
            for future in as_completed(futures, max(end - time.monotonic(), 1.0)):
                log.write(json.dumps(future.result()) + "\n")
                log.flush()
        except TimeoutError:
            for process in list((pool._processes or {}).values()):
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)


def read(file: Path) -> list[dict[str, Any]]:
    """The results that a file holds."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]
