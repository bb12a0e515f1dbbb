"""The compiled descent of many fits, run in blocks on all cores, or on a GPU."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import final

import jax
import jax.numpy as jnp
import numpy as np

from .._data.stack import DataStack
from .._kernels.jaxpr import UntranslatedError
from .._kernels.places import Place, place_for
from .._solve.grid import Grid
from .._util.cores import cores
from .._util.progress import Reporter
from . import epochs
from .descent_grids import AbstractGrids
from .descent_on_gpu import advance_on_gpu
from .descent_targets import stacked_targets
from .epochs import Descent, EpochLog, State, begin, run

# The parameters of every epoch are kept for fits of at most this many parameters.
_MOST_IN_A_PATH = 1000
# How many fits run side by side in one program: enough to fill the vector units, and
# few enough that their buffers stay in the cache.
_BLOCK = 64
# The most epochs of one call of the program, and the seconds that a call should take,
# so that the progress bar moves and Ctrl-C is noticed.
_MOST_EPOCHS, _CALL_SECONDS = 1000, 0.3
# The epochs of the first call. On a GPU, where each call moves all data, it has more:
# so many epochs times fits, and later ones have at most so many.
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
        self._run_on(is_plain and place_for(z.shape[1]) is Place.gpu)
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
        """The epoch at which the next call stops: the end if it is near."""
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
        """The fits that run, in blocks: neighbours in tau take about as many steps."""
        if len(active) > self.size or self.on_gpu:
            delays = self.grids.longest[active]
            active = active[np.argsort(delays, kind="stable")]
        return np.split(active, range(self.size, len(active), self.size))

    def _advance(self, block: np.ndarray, stop: int):
        """Run the program of one block. The last block is filled up with copies that
        have ended."""
        grid = self.grids.grid(block)
        if self.on_gpu:
            assert isinstance(grid, Grid)
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
        """The data of a block on the device, where they stay if the block does."""
        block = fill.tobytes()
        if block not in self.inputs:
            inputs = jax.tree.map(lambda a: a[..., fill], (self.targets, self.T))
            if self.size == 1:
                inputs = jax.tree.map(lambda a: a[..., 0], inputs)
            self.inputs[block] = jax.device_put(inputs)
        return self.inputs[block]

    def _store(
        self, block: np.ndarray, state: State, log: EpochLog, movers, count
    ) -> None:
        """Keep the results of one call: the states, movers and log of a block."""
        width = len(block)
        for whole, part in zip(jax.tree.leaves(self.state), jax.tree.leaves(state)):
            whole[..., block] = part[..., :width]
        self.grids.movers[:, block] = np.atleast_2d(movers)[:, :width]
        rows = int(np.max(count))
        self.logs.append((block, jax.tree.map(lambda a: a[:rows].copy(), log)))

    def log(self, index: int) -> tuple[np.ndarray, np.ndarray | None]:
        """The losses of one fit, a row for each epoch, and its unconstrained vectors if
        they were kept."""
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
    """A program's result on the host, with a last axis over fits."""
    array = np.asarray(array)
    return array[..., None] if size == 1 else array


def _block_size(in_lanes: bool, fits: int) -> tuple[int, int, int]:
    """The number of fits in a block, the number of blocks that run at a time, and the
    largest number of epochs times fits in one call, which limits the memory of the
    log."""
    if jax.default_backend() != "cpu":
        return (fits if in_lanes else 1), 1, 10**7
    workers = cores()
    size = min(_BLOCK, -(-fits // workers)) if in_lanes else 1
    return size, workers, 250 * _BLOCK
