"""The compiled descent of many fits, run in blocks on all cores, or on a GPU with a
thread for each fit.

- `stacked_targets` prepares what a loss needs of many data sets. Those with the same
  times are prepared together, as one data set with all their quantities.
- `DescentBatch` holds the states of all fits, and advances them in blocks."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from .._data.data import Data, DataStack
from .._engine.engine import AbstractGrids
from .._loss.losses import AbstractLoss, Target
from .._programs.jaxpr import UntranslatedError
from .._programs.program import Runner, place_for, run_fits
from .._util.machine import cores
from .._util.progress import Reporter
from . import epochs
from .epochs import Descent, EpochLog, EpochState, begin, run


def stacked_targets(loss: AbstractLoss, stack: DataStack, fits: int) -> Target:
    """Return the targets of the fits to these data sets, or to a single one, with a
    last axis over the fits."""
    groups = _equal_times(stack)
    parts = [(_prepared(loss, stack, group), len(group)) for group in groups]
    targets = [target for target, _ in parts]
    if len(parts) > 1:
        points = max(0 if t.points is None else len(t.points.times) for t in targets)
        pieces = max(
            0 if t.spline is None else len(t.spline.coefficients) for t in targets
        )
        parts = [(target.pad(points, pieces), count) for target, count in parts]
    k = stack.x.shape[2]
    lanes = [_in_lanes(target, count, k) for target, count in parts]
    found = lanes[0]
    if len(lanes) > 1:
        place = np.argsort(np.concatenate(groups))
        found = jax.tree.map(
            lambda *leaves: np.concatenate(leaves, axis=-1)[..., place], *lanes
        )
    if len(stack) == fits:
        return found
    return jax.tree.map(lambda a: np.broadcast_to(a, (*a.shape[:-1], fits)), found)


def _equal_times(stack: DataStack) -> list[np.ndarray]:
    """Return the numbers of the sets, in groups that have the same times."""
    is_shared = stack.t.strides[0] == 0 or np.all(stack.t == stack.t[:1])
    if is_shared and np.all(stack.lengths == stack.lengths[0]):
        return [np.arange(len(stack))]
    groups: dict[bytes, list[int]] = {}
    for number, (t, length) in enumerate(zip(stack.t, stack.lengths)):
        groups.setdefault(t[:length].tobytes(), []).append(number)
    return [np.array(group) for group in groups.values()]


def _prepared(loss: AbstractLoss, stack: DataStack, group: np.ndarray) -> Target:
    """Prepare the target of all sets of a group as one data set, set after set."""
    kept = slice(stack.lengths[group[0]])

    def wide(array: np.ndarray) -> np.ndarray:
        rows = np.swapaxes(array[group][:, kept], 0, 1)
        return rows.reshape(len(rows), -1)

    sd = None if stack.sd is None else wide(stack.sd)
    return loss.prepare(Data(stack.t[group[0], kept], wide(stack.x), sd=sd))


def _in_lanes(target: Target, count: int, k: int) -> Target:
    """Give the target a last axis over `count` data sets of k quantities each."""

    def of_values(array: Any) -> np.ndarray:
        array = np.asarray(array)
        if array.shape[-1] == count * k:
            return np.moveaxis(array.reshape(*array.shape[:-1], count, k), -2, -1)
        return of_times(array)

    def of_times(array: Any) -> np.ndarray:
        array = np.asarray(array)[..., None]
        return np.broadcast_to(array, (*array.shape[:-1], count))

    points, spline = target
    if points is not None:
        values, weights = of_values(points.values), of_values(points.weights)
        points = points._replace(
            times=of_times(points.times), values=values, weights=weights
        )
    if spline is not None:
        coefficients = of_values(spline.coefficients)
        spline = type(spline)(of_times(spline.knots), coefficients, spline.uniform)
    return Target(points, spline)


def advance_on_gpu(
    descent: Descent,
    state: EpochState,
    targets: Target,
    T: np.ndarray,
    fits: np.ndarray,
    stop: int,
    grid: Any,
    rows: int,
) -> Any:
    """Return what `epochs.run` returns for the `fits`, as columns: `state`, `targets`
    and `T` have a column for each fit of the batch."""

    def in_rows(tree: Any) -> Any:
        return jax.tree.map(lambda array: np.moveaxis(np.asarray(array), -1, 0), tree)

    states = in_rows(jax.tree.map(lambda array: array[..., fits], state))
    shared, sets = (descent, grid, rows, np.asarray(stop)), in_rows((targets, T))
    done = run_fits(_run_fit, shared, sets, states, fits, Runner.gpu)
    return jax.tree.map(lambda array: np.moveaxis(array, 0, -1), done)


def _run_fit(shared: tuple[Descent, Any, int, Any], of_set: tuple[Target, Any], state):
    """Run the epochs of one fit."""
    (descent, grid, rows, stop), (target, T) = shared, of_set
    return run(descent, state, target, T, stop, grid, rows, False)


# The parameters of every epoch are kept for fits of at most this many parameters.
_MOST_IN_A_PATH = 1000
# How many fits run side by side in one program: enough to fill the vector units, and
# few enough that their buffers stay in the cache.
_BLOCK = 64
# The most epochs of one call of the program, and the seconds that a call should take,
# so that the progress bar moves and Ctrl-C is noticed.
_MOST_EPOCHS, _CALL_SECONDS = 1000, 0.3
# The epochs of the first call, and the most of them on a GPU. There each call moves all
# data, so that the epochs times fits of the first call and of all others have limits.
_FIRST, _MOST_FIRST, _FIRST_ON_GPU, _MOST_ON_GPU = 10, 250, 25 * 10**6, 10**8


@final
class DescentBatch:
    """The states of all fits, kept on the host with a column for each fit. `run`
    advances them in blocks, some epochs at a time."""

    def __init__(
        self,
        descent: Descent,
        z,
        stack: DataStack,
        grids: AbstractGrids,
        keep_paths: bool,
    ):
        self.descent, self.grids = descent, grids
        self.targets = stacked_targets(descent.loss, stack, z.shape[1])
        self.T = np.broadcast_to(stack.T, z.shape[1])
        self.keeps_paths = keep_paths and len(z) <= _MOST_IN_A_PATH
        self.in_lanes = descent.optimizer.elementwise and grids.side_by_side
        is_plain = self.in_lanes and not self.keeps_paths
        self._run_on(is_plain and place_for(z.shape[1]) is Runner.gpu)
        self.inputs: dict[bytes, tuple] = {}
        self.logs: list[tuple[np.ndarray, EpochLog]] = []
        if self.size > 1:
            self.state = jax.tree.map(np.array, begin(descent, jnp.asarray(z)))
        else:
            columns = [begin(descent, jnp.asarray(column)) for column in z.T]
            self.state = jax.tree.map(lambda *a: np.stack(a, axis=-1), *columns)

    def _run_on(self, gpu: bool) -> None:
        """Run with kernels of our own, or with JAX: how many fits in a block, how many
        blocks at a time, and how many epochs in a call."""
        self.on_gpu, fits = gpu, len(self.T)
        self.size, self.workers, most = _block_size(self.in_lanes, fits)
        if gpu:
            self.size, most = fits, _MOST_ON_GPU
        epochs = min(self.descent.epochs + 1, _MOST_EPOCHS)
        self.rows = max(16, min(epochs, most // self.size))

    def active(self) -> np.ndarray:
        return np.flatnonzero(self.state.status == epochs.RUNNING)

    def run(self, reporter: Reporter) -> None:
        epochs_in_a_call, overflow = _FIRST, False
        if self.on_gpu:
            epochs_in_a_call = np.clip(_FIRST_ON_GPU // self.size, _FIRST, _MOST_FIRST)
        try:
            with ThreadPoolExecutor(self.workers) as pool:
                while len(active := self.active()):
                    began = time.perf_counter()
                    blocks = self._blocks(active)
                    self.grids.reserve(active, overflow)
                    stop = self._stop(active, epochs_in_a_call)
                    overflow = False
                    done = pool.map(self._advance, blocks, [stop] * len(blocks))
                    try:
                        for block, (*result, is_full) in zip(blocks, done):
                            self._store(block, *result)
                            overflow |= bool(np.any(is_full))
                    except UntranslatedError:
                        self._run_on(gpu=False)
                    except jax.errors.JaxRuntimeError as error:
                        if not self._narrows(error):
                            raise
                    if len(self.inputs) > len(blocks):
                        self.inputs.clear()  # They belong to other blocks.
                    reporter.update(self.state, self.grids.longest)
                    if time.perf_counter() - began < _CALL_SECONDS:
                        epochs_in_a_call = min(2 * epochs_in_a_call, self.rows)
        except KeyboardInterrupt:
            pass  # Fits that still run get the status `interrupted`.

    def _stop(self, active: np.ndarray, epochs_in_a_call: int) -> int:
        """Return the epoch at which the next call stops: the end if it is near."""
        stop = int(self.state.epoch[active].min()) + epochs_in_a_call
        end = self.descent.epochs + 1
        return end if end - stop < epochs_in_a_call // 4 else stop

    def _narrows(self, error: Exception) -> bool:
        """Make the blocks narrower if the device had too little memory for one."""
        if "RESOURCE_EXHAUSTED" not in str(error) or self.size <= 2:
            return False
        self.size = max(self.size // 2, 2)
        self.inputs.clear()
        return True

    def _blocks(self, active: np.ndarray) -> list[np.ndarray]:
        """Divide the active fits into blocks of similar delays, which take about as
        many steps."""
        if len(active) > self.size or self.on_gpu:
            delays = self.grids.longest[active]
            active = active[np.argsort(delays, kind="stable")]
        return np.split(active, range(self.size, len(active), self.size))

    def _advance(self, block: np.ndarray, stop: int):
        """Run the program of one block. The last block is filled up with copies that
        have ended."""
        grid = self.grids.grid(block)
        if self.on_gpu:
            everything = self.descent, self.state, self.targets, self.T
            return advance_on_gpu(*everything, block, stop, grid, self.rows)
        fill = np.resize(block, self.size)
        state = jax.tree.map(lambda a: a[..., fill], self.state)
        rest = np.arange(self.size) >= len(block)
        status = np.where(rest, epochs.FINISHED, state.status)
        state = state._replace(status=status)
        if self.size == 1:
            state = jax.tree.map(lambda a: a[..., 0], state)
        target, T = self._inputs(fill)
        result = run(
            self.descent,
            state,
            target,
            T,
            jnp.asarray(stop),
            grid,
            self.rows,
            self.keeps_paths,
        )
        return *(jax.tree.map(lambda a: _column(a, self.size), result[:-1])), result[-1]

    def _inputs(self, fill: np.ndarray):
        """Return the data of a block on the device, where they stay with the block."""
        block = fill.tobytes()
        if block not in self.inputs:
            inputs = jax.tree.map(lambda a: a[..., fill], (self.targets, self.T))
            if self.size == 1:
                inputs = jax.tree.map(lambda a: a[..., 0], inputs)
            self.inputs[block] = jax.device_put(inputs)
        return self.inputs[block]

    def _store(
        self, block: np.ndarray, state: EpochState, log: EpochLog, movers, count
    ) -> None:
        """Keep the results of one call: the states, movers and log of a block."""
        width = len(block)
        for whole, part in zip(jax.tree.leaves(self.state), jax.tree.leaves(state)):
            whole[..., block] = part[..., :width]
        self.grids.movers[:, block] = np.atleast_2d(movers)[:, :width]
        rows = int(np.max(count))
        self.logs.append((block, jax.tree.map(lambda a: a[:rows].copy(), log)))

    def log(self, index: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the losses of one fit, a row for each epoch, and its unconstrained
        vectors if they were kept."""
        lanes = [
            (log, int(lane))
            for block, log in self.logs
            for lane in np.flatnonzero(block == index)
        ]
        loss = np.concatenate([np.empty(0), *(s.loss[:, lane] for s, lane in lanes)])
        ran = ~np.isnan(loss)
        if not self.keeps_paths:
            return loss[ran], None
        empty = np.empty((0, len(self.state.z)))
        path = np.concatenate([empty, *(s.z[..., lane] for s, lane in lanes)])
        return loss[ran], path[ran]


def _column(array, size: int) -> np.ndarray:
    """Return a program's result on the host, with a last axis over fits."""
    array = np.asarray(array)
    return array[..., None] if size == 1 else array


def _block_size(in_lanes: bool, fits: int) -> tuple[int, int, int]:
    """Return the number of fits in a block, the number of blocks that run at a time,
    and the most epochs times fits in one call, which limits the memory of the log."""
    if jax.default_backend() != "cpu":
        return (fits if in_lanes else 1), 1, 10**7
    workers = cores()
    size = min(_BLOCK, -(-fits // workers)) if in_lanes else 1
    return size, workers, 250 * _BLOCK
