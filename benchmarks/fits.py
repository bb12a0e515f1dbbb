"""Whole fits: what an epoch costs inside `dd.fit` and, for each fit, in
`dd.fit_many`."""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

import ddefind as dd

from . import _cases
from ._floor import compiler, floor_loop
from ._report import Row, microseconds
from ._timing import in_fresh_process, in_turn

TITLE = "An epoch of Adam, each fit, 100 RK2 steps; figure: times C on one core"
_SQUARES = dd.SumOfSquares()
_NODES = dd.Integral(dd.L2(), nodes="solver")
_FLOOR_EPOCHS = 2000
# So slow that the number of steps stays what it was.
_OPTIONS: dict[str, Any] = dict(
    optimizer=dd.Adam(1e-12),
    solver=dd.RK2(),
    steps_per_delay=10,
    progress=False,
)
_COMPILE = """
import time, numpy as np, ddefind as dd
t = np.linspace(0, 10, 101)
data, options = dd.Data(t, 1 + np.sin(t)), dict(epochs=20, progress=False)
problem = dd.Problem(dd.models.Logistic(1.0, 1.0), dd.Periodic(0.1, 2.0, 1.0), 1.0)
seconds = []
for _ in range(2):
    start = time.perf_counter()
    dd.fit(problem, data, **options)
    seconds.append(time.perf_counter() - start)
print(seconds[0] - seconds[1])
"""


@contextlib.contextmanager
def _cores(count: int):
    """Use only some of the cores that we may use."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(mine)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


def _measure(
    fit: Callable[[int], object],
    short: int,
    long: int,
    fits: int = 1,
    loss: dd.AbstractLoss = _NODES,
    repeats: int = 7,
) -> tuple[float, float | None]:
    """Seconds of an epoch of one fit, from runs of two lengths (set-up falls out), and
    how many times C that is, in the same rounds."""
    jobs: dict[str, Callable] = {"short": lambda: fit(short), "long": lambda: fit(long)}
    if compiler():
        jobs["floor"] = floor_loop(_cases.paper("exponential"), loss, _FLOOR_EPOCHS)
    times = in_turn(jobs, repeats)
    epochs = (times["long"] - times["short"]) / (long - short) / fits
    if "floor" not in times:
        return float(np.median(epochs)), None
    floor = times["floor"] / _FLOOR_EPOCHS
    return float(np.median(epochs)), float(np.median(epochs / floor))


def _many(case, fits: int, spread: float = 0.0, loss: dd.AbstractLoss = _NODES):
    sets = [case.data] * fits
    taus = float(case.problem.tau) * np.linspace(1 - spread, 1 + spread, fits)
    starts = [{"tau": float(tau)} for tau in taus] if spread else None

    def run(epochs: int):
        return dd.fit_many(
            case.problem, sets, starts=starts, loss=loss, epochs=epochs, **_OPTIONS
        )

    return run


def rows() -> Iterator[Row]:
    case = _cases.paper("exponential")

    def single(epochs: int):
        return dd.fit(case.problem, case.data, loss=_NODES, epochs=epochs, **_OPTIONS)

    if jax.default_backend() == "cpu":
        seconds, figure = _measure(single, 1000, 9000)
        yield Row("fit", microseconds(seconds), figure, 4)
        yield from _on_cores(case)
    else:
        yield _on_accelerator(case)
    compiled = [in_fresh_process(_COMPILE, os.environ) for _ in range(3)]
    what = "fit of Logistic: compilation, seconds"
    yield Row(what, "", float(np.median(compiled)), 1.5)


def _on_cores(case) -> Iterator[Row]:
    epochs = {20: (500, 4500), 60: (300, 2300), 1000: (50, 250)}
    found = {}
    with _cores(1):
        for name, loss in {"sum of squares": _SQUARES, "nodes": _NODES}.items():
            for fits, lengths in epochs.items():
                run = _many(case, fits, loss=loss)
                found[fits], figure = _measure(run, *lengths, fits, loss)
                what = f"fit_many, {fits} data sets, {name}"
                yield Row(what, microseconds(found[fits]), figure, 1)
        for fits in (60, 1000):
            wide, figure = _measure(_many(case, fits, 0.5), *epochs[fits], fits)
            note = f"{wide / found[fits]:.2f} times equal delays (goal 2)"
            what = f"  {fits}, delays spread +-50%"
            yield Row(what, microseconds(wide), figure, 2, note)
    with _cores(2):
        both, figure = _measure(_many(case, 1000), *epochs[1000], 1000)
    note = f"{found[1000] / both:.2f} times as fast as on one (goal 1.6)"
    yield Row("  1000 on two cores", microseconds(both), figure, 1, note)


def _on_accelerator(case) -> Row:
    fits = 100_000
    seconds, _ = _measure(_many(case, fits), 50, 250, fits, repeats=3)
    what = f"fit_many, {fits} data sets, {jax.devices()[0].device_kind}"
    return Row(what, f"{1e9 * seconds:.3g} ns")
