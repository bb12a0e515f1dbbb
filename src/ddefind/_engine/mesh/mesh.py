r"""The mesh: nodes for any number of constant delays, free of the length of a delay.

*Breaking points* are the times at which a derivative of the solution jumps. The slope
x' jumps at time zero, where the history ends, and at each switch in time. A delay
carries a jump on: if a derivative of x jumps at the time s, the next higher one jumps
at s + tau, for every delay tau. With the *movers*

$$w = (\tau_1, \dots, \tau_k, s_1, \dots, s_r),$$

the delays and the times of the switches that are parameters, every breaking point is a
known time and a sum of movers, $b = t_i + \sum_j c_j w_j$ with whole numbers c. Known
times, such as the knots $t_i$ of an input, do not move. All breaking points with the
same c and with the times of the same table are one *family*: it has the order of its
table, whatever the movers are.

A solver of order p keeps its order if the jumps of the derivatives up to number p - 1
are at nodes: a jump of the p-th derivative inside a step costs O(h^p), once. An input
with kinks makes x'' jump, a smooth one (`"cubic"`) x''': they need fewer families than
jumps of x'. Jumps of the second derivative are at nodes for every solver. The delays
themselves are therefore breaking points: before the time tau a delayed state is
history, after it a part of the solution, and no step needs both.

The breaking points, in their order $b_0 = 0 \le b_1 \le \dots$, divide time into
intervals. Interval j is divided into $n_j$ equal steps,

$$t = b_j + \frac{r}{n_j}\,(b_{j+1} - b_j), \qquad r = 0, 1, \dots, n_j - 1,$$

and after the last breaking point all steps have the same length. The numbers $n_j$ are
chosen once, for a given largest step, and then held while the delays change. The nodes
are therefore continuous in the delays, also where two breaking points pass each other:
the interval between them then has the length zero, and its steps do nothing. Wherever
no two breaking points coincide, the nodes are differentiable.

A breaking point at which x' jumps has two rows, one for each side, with a step of
length zero between them.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._problem.delays import delay_count, delay_values
from ..._problem.general_delays import carrying_delays
from ..._problem.problem import Problem
from ..._util.arrays import read, write
from ..runge_kutta import AbstractSolver

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
        """Return the known time in each point, [count], given all tables."""
        zero = np.zeros(1)
        parts = [zero if table < 0 else tables[table] for table in self.tables]
        return xp.concatenate([xp.asarray(part) for part in parts])


class Origin(NamedTuple):
    """Where a jump comes from: a mover, or a table of known times.

    `derivative` is the derivative of x that jumps where the origin is read: at the time
    itself, if `direct`, and through the `delays` with these numbers."""

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
    """Return the breaking points of an equation with this number of delays and these
    origins of jumps, for a solver of this order; `jump` says that x itself jumps at
    time zero.

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
    """Yield the delays by which a jump is carried on, and the derivative that then
    jumps."""
    first = [()] if origin.direct else []
    first += [(q,) for q in origin.delays]
    for passages in range(highest - origin.derivative + 1):
        for begin in first:
            for route in itertools.combinations_with_replacement(carriers, passages):
                yield (*begin, *route), origin.derivative + passages


# In units of the rounding error of the end of the record: breaking points that are
# closer than this count as one; and the left side of a jump of x or of the right-hand
# side is evaluated at this distance.
_SAME, _SIDE = 1024, 64
# The right side is evaluated at a distance longer by this factor: beyond all the
# points that count as one.
_RIGHT = 2 * _SAME // _SIDE


@final
class Mesh(eqx.Module):
    """The nodes of a march, as a function of the movers.

    - `constants`, [points]: the known time in each breaking point.
    - `counts`, [points]: the number of steps in the interval after each of the sorted
      breaking points, without the last.
    - `tail`: the length of the steps after the last breaking point.
    - `T`: the end of the record.
    - `capacity`: how many rows a path has room for.
    - `overlaps`: whether a delay may be shorter than a step, so that a step needs
      states of its own.
    """

    points: BreakingPoints = eqx.field(static=True)
    constants: Any
    counts: Any
    tail: Any
    T: Any
    capacity: int = eqx.field(static=True)
    overlaps: bool = eqx.field(static=True)

    @property
    def side(self) -> Any:
        """How far from a jump its left side is evaluated."""
        return _SIDE * _rounding(self.T)

    def empty(self) -> jax.Array:
        """Allocate the nodes, [capacity, 1 + movers]: times after every record."""
        movers = len(self.points.sums[0])
        never = jnp.finfo(jnp.result_type(float)).max / 1e6
        return jnp.zeros((self.capacity, 1 + movers)).at[:, 0].set(never)

    def delays(self, movers: Any) -> Any:
        """Return the delays among the movers."""
        return movers[: self.points.delays]

    def _breaks(self, movers: np.ndarray) -> np.ndarray:
        """Return the breaking points in their order, for known movers."""
        values = np.asarray(self.constants) + self.points.matrix @ movers
        return np.sort(np.maximum(values, 0.0))

    def rows_in(self, movers: np.ndarray) -> int:
        """Return an upper limit of the number of rows up to T, for known movers."""
        breaks = self._breaks(movers)
        is_inside = breaks[:-1] < float(self.T)
        # Of the interval in which the record ends, only a part is marched.
        shares = (float(self.T) - breaks[:-1]) / np.maximum(np.diff(breaks), 1e-300)
        rows = np.ceil(np.asarray(self.counts)[:-1] * np.clip(shares, 0, 1)) + 1
        steps = int(np.sum(rows[is_inside]))
        after = max(float(self.T) - breaks[-1], 0.0) / float(self.tail)
        return steps + int(np.ceil(after)) + 4

    def longest_step(self, movers: np.ndarray) -> float:
        """Return the longest step up to the time T, for known movers."""
        breaks = self._breaks(movers)
        steps = np.append(np.diff(breaks) / np.asarray(self.counts)[:-1], self.tail)
        return float(np.max(steps[breaks < float(self.T)]))

    def rows_needed(self, movers: jax.Array) -> jax.Array:
        """Return the number of rows of a march up to the time T; the capacity, or more,
        if there is no room for them."""
        return self.fill(movers, self.empty()).last + 2

    def _after_history(self, doubled: jax.Array, rank: jax.Array) -> jax.Array:
        """Return for each delay the first step whose delayed states are not history,
        [k]: the one that begins at the first row of its breaking point."""
        rows = jnp.minimum(jnp.asarray(self.counts), self.capacity) + doubled
        k, count = self.points.delays, self.points.count
        delays = np.eye(k, len(self.points.sums[0]), dtype=int).tolist()
        keys = list(zip(self.points.sums, self.points.tables))
        places = [keys.index((tuple(each), NO_TABLE)) for each in delays]
        is_before = np.arange(count) < rank[np.array(places, int)][:, None]
        return jnp.sum(jnp.where(is_before, rows, 0), axis=1)

    def fill(self, movers: jax.Array, nodes: jax.Array) -> "Nodes":
        """Write the times of the rows and their derivatives for the movers into
        `nodes`, up to two rows behind the first one at or after T."""
        constants = jnp.asarray(self.constants)
        breaks, doubled, rank = _sorted_points(self.points, constants, movers, self.T)
        counts = jnp.asarray(self.counts)
        lengths = (breaks[1:] - breaks[:-1]) / counts[:-1, None]
        tail = jnp.where(jnp.arange(breaks.shape[1]) == 0, self.tail, 0.0)
        lengths = jnp.concatenate([lengths, tail[None]])
        final = self.points.count - 1
        end = self.T - _SAME * _rounding(self.T)

        def is_before_end(carry):
            i, _, _, behind, _ = carry
            return (behind < 3) & (i < self.capacity)

        def one(carry):
            i, interval, r, behind, nodes = carry
            extra = read(doubled, interval)
            steps = jnp.maximum(r - extra, 0)
            node = read(breaks, interval) + steps * read(lengths, interval)
            ends = (r + 1 >= read(counts, interval) + extra) & (interval < final)
            interval = jnp.where(ends, interval + 1, interval)
            behind += node[0] >= end
            return (
                i + 1,
                interval,
                jnp.where(ends, 0, r + 1),
                behind,
                write(nodes, i, node),
            )

        zero = jnp.asarray(0)
        carry = zero, zero, zero, zero, nodes
        i, _, _, behind, nodes = lax.while_loop(is_before_end, one, carry)
        is_possible = behind == 3
        if not self.overlaps:
            longest = jnp.max(jnp.where(breaks[:, 0] < self.T, lengths[:, 0], 0.0))
            is_possible &= longest <= jnp.min(self.delays(movers))
        last = jnp.where(is_possible, i - behind, self.capacity)
        return Nodes(nodes, last, self._after_history(doubled, rank))


class Nodes(NamedTuple):
    """The nodes of a march.

    - `table`, [capacity, 1 + movers]: the time of each row, and its derivatives.
    - `last`: the first row at or after T. It is the capacity if there is no room for
      it, or if a step has become longer than a delay, for which a march is not prepared
      unless its mesh `overlaps`.
    - `after_history`, [k]: for each delay the first step that reads no history.
    """

    table: jax.Array
    last: jax.Array
    after_history: jax.Array


def side_offset(is_right: Any, side: Any) -> Any:
    """Return where a jump is evaluated, relative to its time: on its right or left."""
    return jnp.where(is_right, _RIGHT * side, -side)


def _rounding(T: Any) -> Any:
    """Return the rounding error of the time T."""
    return T * jnp.finfo(jnp.result_type(float)).eps


def _nudges(points: BreakingPoints) -> np.ndarray:
    """Return how the points of each family are displaced where breaking points
    coincide, so that these have an order: switches and known times become earlier and
    delays longer, each by another amount.

    A switch thus comes before all that coincides with it: only then is the right-hand
    side, which is evaluated on the right after a step of length zero, the one between
    the two."""
    delays = points.delays
    switches = len(points.sums[0]) - delays
    later = 0.1 * np.sqrt(1.0 + np.arange(delays))
    earlier = -1 - 1e-3 * np.arange(switches + len(points.tables))
    by_mover = np.append(later, earlier[:switches])
    tables = np.array(points.tables)
    by_table = np.where(tables == NO_TABLE, 0.0, earlier[switches + tables])
    return np.array(points.sums, float) @ by_mover + by_table


def _sorted_points(
    points: BreakingPoints, constants: jax.Array, movers: jax.Array, T: Any
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Sort the breaking points. Return their times and derivatives for the movers,
    [points, 1 + movers], which of them have two rows, and the place of the first point
    of each family.

    Where some coincide, their order is that for slightly displaced movers, the same
    everywhere. The derivatives are then those in the direction of the displacement.

    The families are merged: each is in order by itself, and of all their next points
    the earliest follows. XLA's own sort would keep the loops around it from becoming
    one piece of machine code."""
    sums, same = jnp.asarray(np.array(points.sums, float)), _SAME * _rounding(T)
    offsets = jnp.sum(sums * movers, axis=1)
    nudges = jnp.asarray(_nudges(points))
    first, sizes = points.first, np.array(points.sizes)
    doubled = jnp.asarray(np.array(points.doubled, int))
    count, families = points.count, len(points.sizes)

    def heads(next_points):
        """Return the next point of each family, displaced; infinity if none is left."""
        places = jnp.minimum(first + next_points, count - 1)
        nudged = constants[places] + offsets + same * nudges
        return jnp.where(next_points < sizes, jnp.maximum(nudged, 0.0), jnp.inf)

    def one(j, carry):
        next_points, rank, latest, group, breaks, doubles = carry
        family = jnp.argmin(heads(next_points))
        number = read(next_points, family)
        place = read(jnp.asarray(first), family) + number
        value = read(constants, place) + read(offsets, family)
        # A switch before time zero has no effect.
        derivatives = jnp.where(value < 0, 0.0, read(sums, family))
        time = jnp.maximum(jnp.maximum(value, 0.0), latest)
        # Points that are very close count as one.
        group = jnp.where((j == 0) | (time - latest >= same), time, group)
        row = jnp.concatenate([group[None], derivatives])
        rank = jnp.where((jnp.arange(families) == family) & (number == 0), j, rank)
        return (
            write(next_points, family, number + 1),
            rank,
            time,
            group,
            write(breaks, j, row),
            write(doubles, j, read(doubled, family)),
        )

    zero, none = jnp.zeros(()), jnp.zeros(families, int)
    breaks = jnp.zeros((count, 1 + sums.shape[1]))
    carry = none, none, zero, zero, breaks, jnp.zeros(count, int)
    _, rank, _, _, breaks, doubles = lax.fori_loop(0, count, one, carry)
    return breaks, doubles, rank


def make_mesh(
    points: BreakingPoints,
    movers: Any,
    T: Any,
    step: Any,
    capacity: int,
    overlaps: bool,
    constants: Any = None,
) -> Mesh:
    """Make the mesh with steps of about `step`, or shorter, for movers near these,
    which are numbers of NumPy or traced arrays. `constants` are the known times in the
    points, by default zero."""
    xp = np if isinstance(movers, np.ndarray) else jnp
    movers = movers if xp is np else jax.lax.stop_gradient(movers)
    constants = np.zeros(points.count) if constants is None else constants
    values = constants + xp.sum(points.matrix * movers, axis=1)
    breaks = xp.sort(xp.maximum(values, 0.0))
    lengths = breaks[1:] - breaks[:-1]
    # Intervals after the record are not marched, unless the delays become shorter.
    lengths = xp.where(breaks[:-1] < T, lengths, xp.minimum(lengths, T))
    # An interval that ends long after the record has very many steps.
    most = float(jnp.iinfo(jnp.result_type(int)).max // 2)
    counts = xp.clip(xp.ceil(lengths / step - 1e-9), 1, most).astype(int)
    counts = xp.append(counts, 1)
    counts, step, T, constants = (
        jnp.asarray(each) for each in (counts, step, T, constants)
    )
    return Mesh(points, constants, counts, step, T, capacity, overlaps)


# The largest number of rows of a mesh: more would take gigabytes and minutes.
_MOST_ROWS = 1 << 22


@final
class StepsError(ValueError):
    """A solution that needs too many fixed steps."""


def points_of(problem: Problem, solver: AbstractSolver) -> BreakingPoints:
    """Return the breaking points of a problem that matter to a solver."""
    tables = problem.known_times
    known = [
        Origin(
            each.derivative,
            *each.reads,
            mover=each.mover,
            table=n,
            size=np.shape(each.times)[0],
        )
        for n, each in enumerate(tables)
    ]
    count, added = problem.moving_count, {each.mover for each in tables}
    moving = [Origin(1, mover=j) for j in range(count) if j not in added]
    # Without known times there are no reads of inputs alone.
    carrying = carrying_delays(problem) if known else None
    delays, jump = delay_count(problem.tau), problem.has_jump
    return breaking_points(
        delays, [*moving, *known], jump, solver.order, carrying, count
    )


def known_constants(problem: Problem, points: BreakingPoints, xp: Any = np) -> Any:
    """Return the known times in the breaking points, [points]."""
    return points.constants([each.times for each in problem.known_times], xp)


def mover_values(problem: Problem) -> np.ndarray:
    """Return the delays and the moving switches of a problem with known values."""
    delays = [float(leaf) for leaf in jax.tree.leaves(delay_values(problem.tau))]
    return np.append(np.array(delays), np.asarray(problem.moving_times, float))


def mesh_for(
    points: BreakingPoints,
    movers: np.ndarray,
    names: Sequence[str],
    T: float,
    steps_per_delay: int,
    max_step: float | None = None,
    shrink: float = 1.0,
    constants: np.ndarray | None = None,
) -> Mesh:
    """Return the mesh for these values of the movers; `names` are those of the
    delays."""
    _check_movers(movers, names)
    delays = movers[: points.delays]
    step = min(float(np.min(delays)), T) / steps_per_delay
    step = step if max_step is None else max_step
    fine = make_mesh(points, movers, T, shrink * step, 0, True, constants)
    needed = fine.rows_in(movers)
    if needed > _MOST_ROWS:
        shortest = names[int(np.argmin(delays))]
        raise StepsError(
            f"The solution up to T = {T:g} needs {needed} steps of {step:g}, "
            f"{steps_per_delay} in the delay `{shortest}`. Give `max_step`, the "
            "largest length of a step."
        )
    # One of few sizes, so that few programs are compiled, however the delays vary.
    quarter = (1 << max(needed - 1, 63).bit_length()) // 8
    capacity = quarter * -(-needed // quarter)
    overlaps = bool(np.min(delays) * shrink < 2 * step)
    return make_mesh(points, movers, T, step, capacity, overlaps, constants)


def _check_movers(movers: np.ndarray, names: Sequence[str]) -> None:
    """Raise an error unless the delays are positive and all movers finite."""
    for name, value in zip(names, movers):
        if not 0 < value < math.inf:
            raise ValueError(
                f"The delay `{name}` must be positive and finite, but it is {value:g}. "
                "Give other values to the parameters of its formula."
            )
    for value in movers[len(names) :]:
        if not math.isfinite(value):
            raise ValueError(
                f"A switch is at the time {value:g}. Give the parameters of "
                "`switches` values for which all of its times are finite."
            )
