"""Value and gradient of the paper's models, inside a compiled loop, over C by hand."""

import time
from collections.abc import Iterator

import numpy as np

import ddefind as dd

from . import _cases
from ._floor import compiler, floor_loop
from ._loops import gradient_loop
from ._report import Row, microseconds
from ._timing import in_turn, ratio

TITLE = "Value and gradient, 100 RK2 steps, one fit; figure: times C"
_EPOCHS = 1000


def _row(case: _cases.Case, loss, label: str, goal: float) -> Row:
    jobs = {"ours": gradient_loop(case, loss, _EPOCHS)}
    if compiler():
        jobs["floor"] = floor_loop(case, loss, _EPOCHS)
    seconds = in_turn(jobs, clock=time.process_time)
    measured = microseconds(np.median(seconds["ours"]) / _EPOCHS)
    what = f"{case.name}, {label}"
    if "floor" not in seconds:
        return Row(what, measured, note="no C compiler `cc`: time only")
    floor = microseconds(np.median(seconds["floor"]) / _EPOCHS)
    times = ratio(seconds["ours"], seconds["floor"])
    return Row(what, measured, times, goal, f"C {floor}")


def rows() -> Iterator[Row]:
    at_nodes = dd.Integral(dd.L2(), nodes="solver")
    for case in (
        _cases.paper("exponential"),
        _cases.paper("cheyne"),
        _cases.paper("hiv"),
    ):
        yield _row(case, at_nodes, 'Integral(nodes="solver")', 4)
        yield _row(case, dd.SumOfSquares(), "SumOfSquares at 101 times", 6)
