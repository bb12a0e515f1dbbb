r"""The mesh: nodes for any number of constant delays, free of the length of a delay.

The breaking points (see `breaking_points.py`), in their order $b_0 = 0 \le b_1 \le
\dots$, divide time into intervals. Interval j is divided into $n_j$ equal steps,

$$t = b_j + \frac{r}{n_j}\,(b_{j+1} - b_j), \qquad r = 0, 1, \dots, n_j - 1,$$

and after the last breaking point all steps have the same length. The numbers $n_j$ are
chosen once, for a given largest step, and then held while the delays change. The nodes
are therefore continuous in the delays, also where two breaking points pass each other:
the interval between them then has the length zero, and its steps do nothing. Wherever
no two breaking points coincide, the nodes are differentiable.

A breaking point at which x' jumps has two rows, one for each side, with a step of
length zero between them.
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .breaking_points import BreakingPoints

# Breaking points that are closer than this share of the record count as one.
_SAME = 1e-11
# Where x or the right-hand side jumps, it is looked at from one side: by this share of
# the record before or after the jump.
_SIDE = 1e-14
# The largest number of steps in one interval: enough for every record, and an integer.
_MOST_STEPS = 1 << 30


@final
class Mesh(eqx.Module):
    """The nodes of a march, as a function of the movers.

    - `counts`, [points]: the number of steps in the interval after each of the sorted
      breaking points, without the last.
    - `tail`: the length of the steps after the last breaking point.
    - `T`: the end of the record.
    - `capacity`: how many rows a path has room for.
    - `overlaps`: whether a delay may be shorter than a step, so that a step needs
      states of its own.
    """

    points: BreakingPoints = eqx.field(static=True)
    counts: Any
    tail: Any
    T: Any
    capacity: int = eqx.field(static=True)
    overlaps: bool = eqx.field(static=True)

    @property
    def side(self) -> Any:
        """How far from a jump each of its sides is looked at."""
        return _SIDE * self.T

    def nodes(self, movers: jax.Array) -> jax.Array:
        """The times of all rows with their derivatives for the movers, [capacity, 1 +
        movers]."""
        breaks, doubled = _sorted_points(self.points, movers, self.T)
        rows = self.counts + doubled
        first = jnp.cumsum(rows) - rows
        lengths = (breaks[1:] - breaks[:-1]) / self.counts[:-1, None]
        last_length = jnp.zeros_like(breaks[:1]).at[0, 0].set(self.tail)
        lengths = jnp.concatenate([lengths, last_length])
        i = jnp.arange(self.capacity)[:, None]
        inside = (i >= first) & (i < first + rows)
        inside = inside.at[:, -1].set(i[:, 0] >= first[-1])
        steps = jnp.maximum(i - first - doubled, 0)
        times = breaks + steps[:, :, None] * lengths
        return jnp.sum(jnp.where(inside[:, :, None], times, 0.0), axis=1)

    def last(self, times: jax.Array) -> jax.Array:
        """The first row at or after T; the capacity, if there is none."""
        return jnp.sum(times < self.T * (1 - 1e-12))


class _Sorted(NamedTuple):
    breaks: jax.Array
    doubled: jax.Array


def _sorted_points(points: BreakingPoints, movers: jax.Array, T: Any) -> _Sorted:
    """The breaking points in their order with their derivatives for the movers,
    [points, 1 + movers], and which of them have two rows.

    They are sorted by counting how many are before each: XLA's own sort would keep the
    loops around it from becoming one piece of machine code."""
    sums = jnp.asarray(points.matrix)
    values = jnp.sum(sums * movers, axis=1)
    # A switch before time zero has no effect.
    sums = jnp.where(values[:, None] < 0, 0.0, sums)
    values = jnp.maximum(values, 0.0)
    number = np.arange(len(points.sums))
    is_before = (values[None] < values[:, None]) | (
        (values[None] == values[:, None]) & (number[None] < number[:, None])
    )
    rank = jnp.sum(is_before, axis=1)
    has_rank = rank[None] == number[:, None]
    table = jnp.concatenate([values[:, None], sums], axis=1)
    table = jnp.sum(jnp.where(has_rank[:, :, None], table, 0.0), axis=1)
    doubled = jnp.sum(has_rank & np.array(points.doubled), axis=1)
    times = table[:, 0]
    is_same = times[1:] - times[:-1] < _SAME * T
    joined = jnp.where(is_same, times[:-1], times[1:])
    times = jnp.concatenate([times[:1], joined])
    return _Sorted(jnp.concatenate([times[:, None], table[:, 1:]], axis=1), doubled)


def make_mesh(
    points: BreakingPoints,
    movers: jax.Array,
    T: Any,
    step: Any,
    capacity: int,
    overlaps: bool,
) -> Mesh:
    """The mesh with steps of about `step`, or shorter, for movers near these."""
    breaks, _ = _sorted_points(points, jax.lax.stop_gradient(movers), T)
    lengths = breaks[1:, 0] - breaks[:-1, 0]
    # Intervals after the record are not marched, unless the delays become shorter.
    lengths = jnp.where(breaks[:-1, 0] < T, lengths, jnp.minimum(lengths, T))
    counts = jnp.clip(jnp.ceil(lengths / step - 1e-9), 1, _MOST_STEPS).astype(int)
    counts = jnp.concatenate([counts, jnp.ones_like(counts[:1])])
    return Mesh(points, counts, step, T, capacity, overlaps)


def rows_needed(
    points: BreakingPoints, movers: np.ndarray, T: float, step: float
) -> int:
    """An upper limit of the number of rows of such a mesh up to the time T."""
    breaks = np.append(np.sort(np.maximum(points.matrix @ movers, 0.0)), np.inf)
    lengths = np.clip(np.minimum(breaks[1:], T) - breaks[:-1], 0.0, None)
    steps = np.sum(np.ceil(lengths / step)[breaks[:-1] < T] + 2)
    return int(steps + sum(points.doubled) + 2)
