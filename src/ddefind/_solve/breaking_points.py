r"""Breaking points: the times at which a derivative of the solution jumps.

The slope x' jumps at time zero, where the history ends, and at each switch in time. A
delay carries a jump on: if a derivative of x jumps at the time s, the next higher one
jumps at s + tau, for every delay tau. With the *movers*

$$w = (\tau_1, \dots, \tau_k, s_1, \dots, s_r),$$

the delays and the times of the switches, every breaking point is a sum of them,
$b = \sum_j c_j w_j$ with whole numbers c.

A solver of order p keeps its order if the jumps of the derivatives up to number p - 1
stand at nodes: a jump of the p-th derivative inside a step costs O(h^p), once.

For every solver jumps of the second derivative stand at nodes. The delays themselves
are therefore breaking points: before the time tau a delayed state is history, after it
a part of the solution, and no step needs both.
"""

import itertools
from dataclasses import dataclass
from typing import final

import numpy as np


@final
@dataclass(frozen=True)
class BreakingPoints:
    """The breaking points of a problem.

    - `sums`: for each breaking point the whole numbers c, one for each mover.
    - `delays`: how many of the movers are delays; they come first.
    - `doubled`: for each breaking point whether x' may jump there, so that its node
      needs two rows, one for each side.
    """

    delays: int
    sums: tuple[tuple[int, ...], ...]
    doubled: tuple[bool, ...]

    @property
    def matrix(self) -> np.ndarray:
        """The sums as a matrix [points, movers]."""
        return np.array(self.sums, float)


def breaking_points(
    delays: int, switches: int, jump: bool, order: int
) -> BreakingPoints:
    """The breaking points of an equation with so many delays and switches, for a solver
    of this order; `jump` says that x itself jumps at time zero."""
    # The number of the derivative that jumps at each origin: time zero, the switches.
    origins = [(None, 0 if jump else 1)] + [(s, 1) for s in range(switches)]
    found: dict[tuple[int, ...], bool] = {}
    for switch, derivative in origins:
        for passages in range(max(order - 1, 2) - derivative + 1):
            for route in itertools.combinations_with_replacement(
                range(delays), passages
            ):
                sums = np.zeros(delays + switches, int)
                np.add.at(sums, list(route), 1)
                if switch is not None:
                    sums[delays + switch] = 1
                is_start = switch is None and passages == 0
                doubled = derivative + passages <= 1 and not is_start
                found[tuple(sums.tolist())] = doubled
    return BreakingPoints(delays, tuple(found), tuple(found.values()))
