"""Clocks for a shared machine: in turn, many times, medians."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping

import numpy as np


def in_turn(
    jobs: Mapping[str, Callable[[], object]],
    repeats: int = 21,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, np.ndarray]:
    """Seconds of each job in each round, after a round that warms up.

    For jobs of one thread, `clock=time.process_time` leaves out the time in which the
    machine ran somebody else's."""
    seconds = {name: np.empty(repeats) for name in jobs}
    for round_ in range(-1, repeats):
        for name, job in jobs.items():
            start = clock()
            job()
            elapsed = clock() - start
            if round_ >= 0:
                seconds[name][round_] = elapsed
    return seconds


def ratio(above: np.ndarray, below: np.ndarray) -> float:
    """The median over rounds: a round's two times share the machine's mood."""
    return float(np.median(above / below))


def in_fresh_process(code: str, environment: Mapping[str, str]) -> float:
    """The number that `code` prints last, run by a new interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])
