"""The cost of a step as there are more of them: by a longer time, by a finer grid."""

import time
from collections.abc import Iterator

import numpy as np

import ddefind as dd

from ._cases import Case, paper
from ._loops import gradient_loop
from ._report import Row
from ._timing import in_turn, ratio

TITLE = "Gradient per step (Exponential, RK2); figure: over the fewest steps"
_STEPS_PER_JOB = 100_000


def _longer(delays: int) -> tuple[Case, int]:
    case = paper("exponential")
    t = np.linspace(0.0, delays * float(case.problem.tau) * 0.999, 101)
    return Case(case.name, case.problem, dd.Data(t, 2.0 + np.sin(t))), 10


def _finer(n: int) -> tuple[Case, int]:
    return paper("exponential"), n


def _rows(label: str, sizes: dict[int, tuple[Case, int]]) -> Iterator[Row]:
    loss, jobs, work = dd.SumOfSquares(), {}, {}
    for size, (case, n) in sizes.items():
        steps = int(np.ceil(case.data.T / float(case.problem.tau) * n))
        epochs = max(1, _STEPS_PER_JOB // steps)
        jobs[str(size)] = gradient_loop(case, loss, epochs, n)
        work[str(size)] = steps * epochs
    seconds = in_turn(jobs, repeats=11, clock=time.process_time)
    per_step = {name: each / work[name] for name, each in seconds.items()}
    fewest = per_step[str(min(sizes))]
    for name, each in per_step.items():
        measured = f"{1e9 * np.median(each):.3g} ns"
        yield Row(f"{label} {name}", measured, ratio(each, fewest), 1.5)


def rows() -> Iterator[Row]:
    sizes = (10, 30, 100, 300, 1000)
    yield from _rows("T / tau", {size: _longer(size) for size in sizes})
    yield from _rows("steps per delay", {size: _finer(size) for size in sizes})
