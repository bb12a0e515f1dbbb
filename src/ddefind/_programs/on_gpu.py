"""Runs translated programs on the GPU, with CuPy."""

import importlib.util
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, final

import numpy as np

from .jaxpr import UntranslatedError
from .translate import OWN, ProgramSource

# Threads of a block (as in the source of `translate.py`), and the most threads on each
# multiprocessor.
_BLOCK, _MOST_THREADS = 64, 768
# The shares of the free memory that the threads and the results of fits may take.
_FOR_THREADS, _FOR_FITS = 0.3, 0.2

# Four programs run at a time, each in a stream of its own: while one waits for its
# slowest fits, others use the free processors.
_places = threading.Semaphore(4)
_streams: list[Any] = []


@cache
def has_gpu() -> bool:
    """Whether there is a GPU, and CuPy to use it, and JAX is not kept on the
    processor."""
    on_processor = os.environ.get("JAX_PLATFORMS", "") == "cpu"
    if on_processor or importlib.util.find_spec("cupy") is None:
        return False
    try:
        return _cupy().cuda.runtime.getDeviceCount() > 0
    except Exception:  # There is no driver, or not the one that CuPy needs.
        return False


def _cupy() -> Any:
    return importlib.import_module("cupy")


@final
class GpuKernel:
    """A program on the GPU."""

    def __init__(self, source: ProgramSource):
        self.words = max(source.words, 1)
        try:
            module = _cupy().RawModule(code=source.text, options=("--std=c++17",))
            self._function = module.get_function("program")
        except Exception as error:  # CuPy has many errors, for missing parts of CUDA.
            raise UntranslatedError(f"CUDA cannot compile it: {error}") from error

    def run(
        self,
        arrays: Sequence[np.ndarray],
        owners: Sequence[str],
        set_of: np.ndarray,
        outputs: Sequence[tuple[int, Any]],
    ) -> list[np.ndarray]:
        """Compute the outputs, [fits, size] for each (size, type) of `outputs`, in
        portions for which there is memory."""
        try:
            return self._run(arrays, owners, set_of, outputs)
        except Exception as error:  # Such as no memory: other programs use it, too.
            raise UntranslatedError(f"the GPU cannot run it: {error}") from error

    def _run(self, arrays, owners, set_of, outputs) -> list[np.ndarray]:
        fits = len(set_of)
        row_bytes = sum(a[:1].nbytes for a, o in zip(arrays, owners) if o == OWN)
        row_bytes += sum(size * np.dtype(dtype).itemsize for size, dtype in outputs)
        with _stream():
            kept = [None if o == OWN else _columns(a) for a, o in zip(arrays, owners)]
            room = _FOR_FITS * _free() / max(2 * row_bytes, 1)
            portion = int(np.clip(room, _BLOCK, max(fits, _BLOCK)))
            parts = []
            for first in range(0, fits, portion):
                rows = slice(first, min(first + portion, fits))
                given = [
                    _columns(a[rows]) if k is None else k for a, k in zip(arrays, kept)
                ]
                parts.append(self._launch(given, set_of[rows], outputs))
        if len(parts) == 1:
            return parts[0]
        return [np.concatenate(each) for each in zip(*parts)]

    def _launch(self, given, set_of, outputs) -> list[np.ndarray]:
        cupy, count = _cupy(), len(set_of)
        results = [cupy.empty((size, count), dtype) for size, dtype in outputs]
        processors = cupy.cuda.Device().attributes["MultiProcessorCount"]
        room = _FOR_THREADS * _free() / (8 * self.words)
        threads = min(count, processors * _MOST_THREADS, room)
        blocks = max(int(np.ceil(threads / _BLOCK)), 1)
        memory = cupy.empty(blocks * _BLOCK * self.words)
        with_steps = [
            item
            for a in (*given, *results)
            for item in (a, np.int64(a.shape[1]), np.int64(a.shape[1] > 1))
        ]
        arguments = np.int64(count), cupy.asarray(set_of), memory, *with_steps
        self._function((blocks,), (_BLOCK,), arguments)
        return [cupy.ascontiguousarray(result.T).get() for result in results]


@contextmanager
def _stream() -> Iterator[None]:
    """Send the work of this thread to a stream of its own."""
    with _places:
        stream = _streams.pop() if _streams else _cupy().cuda.Stream(non_blocking=True)
        try:
            with stream:
                yield
        finally:
            _streams.append(stream)


def _columns(array: np.ndarray) -> Any:
    """Copy an array to the GPU, its rows as columns. Rows that are the same memory
    become a single column."""
    cupy = _cupy()
    if array.strides[0] == 0:
        array = array[:1]
    flat = cupy.asarray(array).reshape(len(array), -1)
    return cupy.ascontiguousarray(flat.T)


def _free() -> int:
    """Return the bytes of the GPU that are free, or that CuPy can use again."""
    cupy = _cupy()
    pool = cupy.get_default_memory_pool()
    return cupy.cuda.runtime.memGetInfo()[0] + pool.free_bytes()
