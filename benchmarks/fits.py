"""Whole fits: what an epoch costs inside `dd.fit` and, for each fit, in
`dd.fit_many`."""

import contextlib
import os
from collections.abc import Callable, Iterator

import jax
import numpy as np

import ddefind as dd

from . import _cases
from ._floor import compiler, floor_loop
from ._report import Row, microseconds
from ._timing import in_fresh_process, in_turn

TITLE = "An epoch of Adam, each fit, 100 RK2 steps; figure: times C on one core"
_LOSS = dd.Integral(dd.L2(), nodes="solver")
_FLOOR_EPOCHS = 2000
# So slow that the number of steps stays what it was.
_OPTIONS = dict(
    loss=_LOSS,
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


def _per_epoch(fit: Callable[[int], object], short: int, long: int, repeats: int = 5):
    """Seconds of an epoch, from fits of two lengths: set-up and compilation fall
    out."""
    times = in_turn({"short": lambda: fit(short), "long": lambda: fit(long)}, repeats)
    return np.median((times["long"] - times["short"]) / (long - short))


def _floor(case) -> float | None:
    if not compiler():
        return None
    seconds = in_turn({"floor": floor_loop(case, _LOSS, _FLOOR_EPOCHS)})["floor"]
    return float(np.median(seconds)) / _FLOOR_EPOCHS


def _row(what: str, seconds: float, floor: float | None, goal: float, note="") -> Row:
    figure = None if floor is None else seconds / floor
    return Row(what, microseconds(seconds), figure, goal, note)


def _many(case, fits: int, spread: float = 0.0):
    sets = [case.data] * fits
    taus = float(case.problem.tau) * np.linspace(1 - spread, 1 + spread, fits)
    starts = [{"tau": float(tau)} for tau in taus] if spread else None

    def run(epochs: int):
        return dd.fit_many(case.problem, sets, starts=starts, epochs=epochs, **_OPTIONS)

    return run


def rows() -> Iterator[Row]:
    case = _cases.exponential()
    floor = _floor(case)

    def single(epochs: int):
        return dd.fit(case.problem, case.data, epochs=epochs, **_OPTIONS)

    yield _row("fit", _per_epoch(single, 1000, 9000), floor, 4)
    if jax.default_backend() == "cpu":
        yield from _on_cores(case, floor)
    else:
        yield _on_accelerator(case)
    environment = dict(os.environ)
    seconds = [in_fresh_process(_COMPILE, environment) for _ in range(3)]
    compiled = float(np.median(seconds))
    yield Row("fit of Logistic: compilation, seconds", "", compiled, 1.5)


def _on_cores(case, floor) -> Iterator[Row]:
    epochs = {20: (500, 4500), 60: (300, 2300), 1000: (50, 250)}
    found = {}
    with _cores(1):
        for fits, (short, long) in epochs.items():
            found[fits] = _per_epoch(_many(case, fits), short, long) / fits
            yield _row(f"fit_many, {fits} data sets", found[fits], floor, 1)
        for fits in (60, 1000):
            spread = _per_epoch(_many(case, fits, 0.5), *epochs[fits]) / fits
            note = f"{spread / found[fits]:.2f} times equal delays (goal 2)"
            yield _row(f"  {fits}, delays spread +-50%", spread, floor, 2, note)
    cores = len(os.sched_getaffinity(0))
    with _cores(2):
        both = _per_epoch(_many(case, 1000), *epochs[1000]) / 1000
    note = f"{found[1000] / both:.2f} times as fast as one (goal 1.6), of {cores}"
    yield _row("  1000 on two cores", both, floor, 1, note)


def _on_accelerator(case) -> Row:
    fits = 100_000
    seconds = _per_epoch(_many(case, fits), 50, 250, repeats=3) / fits
    what = f"fit_many, {fits} data sets, {jax.devices()[0].device_kind}"
    return Row(what, f"{1e9 * seconds:.3g} ns")
