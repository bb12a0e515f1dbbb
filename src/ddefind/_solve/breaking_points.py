r"""Breaking points: the times at which a derivative of the solution jumps.

The slope x' jumps at time zero, where the history ends, and at each switch in time. A
delay carries a jump on: if a derivative of x jumps at the time s, the next higher one
jumps at s + tau, for every delay tau. With the *movers*

$$w = (\tau_1, \dots, \tau_k, s_1, \dots, s_r),$$

the delays and the times of the switches that are parameters, every breaking point is a
known time and a sum of movers, $b = t_i + \sum_j c_j w_j$ with whole numbers c. Known
times, such as the knots $t_i$ of an input, do not move. All breaking points with the
same c and with the times of the same table are one *family*: it has the order of its
table, whatever the movers are.

A solver of order p keeps its order if the jumps of the derivatives up to number p - 1
stand at nodes: a jump of the p-th derivative inside a step costs O(h^p), once. An input
with kinks makes x'' jump, a smooth one (`"cubic"`) x''': they need fewer families than
jumps of x'.

For every solver jumps of the second derivative stand at nodes. The delays themselves
are therefore breaking points: before the time tau a delayed state is history, after it
a part of the solution, and no step needs both.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

# The table of a family without known times: its only time is zero.
NO_TABLE = -1


@final
@dataclass(frozen=True)
class BreakingPoints:
    """The breaking points of a problem, in families.

    - `delays`: how many of the movers are delays; they come first.
    - `sums`: for each family the whole numbers c, one for each mover.
    - `doubled`: for each family whether x' may jump there, so that its nodes need two
      rows, one for each side.
    - `tables`: for each family the number of its table of known times, or `NO_TABLE`;
      `sizes` are the numbers of points.
    """

    delays: int
    sums: tuple[tuple[int, ...], ...]
    doubled: tuple[bool, ...]
    tables: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of all points."""
        return sum(self.sizes)

    @property
    def family(self) -> np.ndarray:
        """The family of each point, [count]."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def first(self) -> np.ndarray:
        """The number of the first point of each family."""
        return np.cumsum([0, *self.sizes])[:-1]

    @property
    def has_switches(self) -> bool:
        """Whether the right-hand side jumps, or has a kink, at certain times."""
        has_known = any(table != NO_TABLE for table in self.tables)
        return has_known or len(self.sums[0]) > self.delays

    @property
    def matrix(self) -> np.ndarray:
        """The sums of each point as a matrix [count, movers]."""
        return np.array(self.sums, float)[self.family]

    def constants(self, tables: Sequence[Any], xp: Any = np) -> Any:
        """The known time in each point, [count], given all tables."""
        zero = np.zeros(1)
        parts = [zero if table < 0 else tables[table] for table in self.tables]
        return xp.concatenate([xp.asarray(part) for part in parts])


class Origin(NamedTuple):
    """Where a jump comes from: a mover, or a table of known times.

    `derivative` is that of x which jumps where the origin is read: at the time itself,
    if `direct`, and through the `delays` with these numbers."""

    derivative: int
    direct: bool = True
    delays: tuple[int, ...] = ()
    mover: int | None = None
    table: int = NO_TABLE
    size: int = 1


def breaking_points(
    delays: int,
    origins: Sequence[Origin],
    jump: bool,
    order: int,
    carrying: Sequence[bool] | None = None,
    moving: int = 0,
) -> BreakingPoints:
    """The breaking points of an equation with so many delays and these origins of
    jumps, for a solver of this order; `jump` says that x itself jumps at time zero.

    `carrying` says which delays carry a kink of the state on: not one by which nothing
    but an input is read. `moving` is the number of movers that are no delays."""
    every = range(delays)
    carriers = [q for q in every if carrying is None or carrying[q]]
    highest = max(order - 1, 2)
    found: dict[tuple, tuple[bool, int]] = {}

    def add(route: Sequence[int], origin: Origin, derivative: int, is_start: bool):
        sums = np.zeros(delays + moving, int)
        np.add.at(sums, list(route), 1)
        if origin.mover is not None:
            sums[delays + origin.mover] = 1
        key = (tuple(sums.tolist()), origin.table)
        doubled = derivative <= 1 and not is_start
        before = found.get(key, (False, 0))[0]
        found[key] = (doubled or before, origin.size)

    start = Origin(0 if jump else 1)
    for route, derivative in _routes(start, carriers, highest):
        add(route, start, derivative, not route)
    for q in every:
        if q not in carriers:
            add((q,), start, 2, False)
    for origin in origins:
        for route, derivative in _routes(origin, carriers, highest):
            add(route, origin, derivative, False)
    keys = list(found)
    return BreakingPoints(
        delays,
        tuple(sums for sums, _ in keys),
        tuple(doubled for doubled, _ in found.values()),
        tuple(table for _, table in keys),
        tuple(size for _, size in found.values()),
    )


def _routes(
    origin: Origin, carriers: Sequence[int], highest: int
) -> Iterator[tuple[tuple[int, ...], int]]:
    """The delays by which a jump is carried on, and which derivative it then is."""
    first = [()] if origin.direct else []
    first += [(q,) for q in origin.delays]
    for passages in range(highest - origin.derivative + 1):
        for begin in first:
            for route in itertools.combinations_with_replacement(carriers, passages):
                yield (*begin, *route), origin.derivative + passages
