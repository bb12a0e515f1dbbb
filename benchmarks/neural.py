"""What a gradient costs beside the loss alone, for networks of growing size."""

from collections.abc import Iterator

import equinox as eqx
import jax
import numpy as np

import ddefind as dd

from ._cases import neural
from ._loops import gradient_loop, value_loop
from ._report import Row, microseconds
from ._timing import in_turn, ratio

TITLE = "Neural rhs, 100 RK2 steps; figure: gradient over loss alone"
_SIZES = (
    dict(width=2, depth=1, epochs=500),
    dict(width=29, depth=2, epochs=50),
    dict(width=313, depth=2, epochs=1),
)


def _row(width: int, depth: int, epochs: int) -> Row:
    case, loss = neural(width, depth), dd.Integral(dd.L2(), nodes="solver")
    jobs = {
        "gradient": gradient_loop(case, loss, epochs),
        "value": value_loop(case, loss, epochs),
    }
    seconds = in_turn(jobs, repeats=11)
    weights = eqx.filter(case.problem.rhs, eqx.is_inexact_array)
    count = sum(leaf.size for leaf in jax.tree.leaves(weights))
    alone = microseconds(np.median(seconds["value"]) / epochs)
    measured = microseconds(np.median(seconds["gradient"]) / epochs)
    times = ratio(seconds["gradient"], seconds["value"])
    return Row(f"{count:,} parameters", measured, times, 6, f"loss alone {alone}")


def rows() -> Iterator[Row]:
    for size in _SIZES:
        yield _row(**size)
