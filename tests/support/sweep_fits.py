"""Fits whose making is written down, so that a test sees what was made, and where."""

import os
import time
from typing import Any, NamedTuple, final

import equinox as eqx
import numpy as np

import ddefind as dd
from ddefind._fitting.request import FitOptions, FitTask, FitTasks

FIELDS = ("best", "first", "final", "loss", "epochs")


@final
class Written(dd.AbstractMethod):
    """Least squares from one start, for each fit with a line in a journal: its seed,
    the process, and the time. A fit takes some `seconds` more, and data whose label is
    "impossible" cannot be fitted."""

    journal: str = eqx.field(static=True)
    seconds: float = eqx.field(static=True, default=0.0)

    def check(self, options: FitOptions) -> None:
        dd.LeastSquares(starts=1).check(options)

    def fit(self, task: FitTask, options: FitOptions) -> dd.Estimate:
        return dd.LeastSquares(starts=1).fit(task, options)

    def fit_many(self, tasks: FitTasks, options: FitOptions) -> dd.FitBatch:
        for task in tasks:
            with open(self.journal, "a") as file:
                file.write(f"{task.seed} {os.getpid()} {time.time()}\n")
            time.sleep(self.seconds)
            if task.data.label == "impossible":
                raise ValueError("These data cannot be fitted.")
            if task.data.label == "deadly":
                os.kill(os.getpid(), 9)
        return dd.LeastSquares(starts=1).fit_many(tasks, options)


class Made(NamedTuple):
    """A line of the journal."""

    seed: int
    process: int
    at: float


def made(journal: Any) -> list[Made]:
    """What the journal says."""
    try:
        with open(journal) as file:
            rows = [line.split() for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []
    return [Made(int(seed), int(process), float(at)) for seed, process, at in rows]


def start() -> dd.Problem:
    return dd.Problem(dd.models.Exponential(-1.1, -0.4), dd.Constant(0.9), tau=1.1)


def sets(count: int, seed: int = 0) -> list[dd.Data]:
    """Noisy data of one equation."""
    truth = dd.Problem(dd.models.Exponential(-1.0, -0.5), dd.Constant(1.0), tau=1.0)
    t = np.linspace(0, 5, 30)
    x = np.asarray(dd.solve(truth, T=5)(t))
    random = np.random.default_rng(seed)
    return [dd.Data(t, x + 0.02 * random.normal(size=x.shape)) for _ in range(count)]


def arrays(batch: dd.FitBatch) -> list[bytes]:
    """All numbers of a batch, to the last bit."""
    found = [getattr(batch, name).tobytes() for name in FIELDS]
    return [*found, " ".join(status.name for status in batch.statuses).encode()]
