"""The machine: the cores that the process may use, where JAX computes, and the threads
of BLAS."""

import functools
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import jax

# The most cores that the work of this thread may use.
_MOST: ContextVar[int | None] = ContextVar("most cores", default=None)


def cores() -> int:
    """Return the number of cores that this process may use, at least 1.

    On Linux this respects the process's CPU affinity, which a batch system or a
    container may have restricted to fewer cores than the machine has."""
    affinity = getattr(os, "sched_getaffinity", None)
    known = len(affinity(0)) if affinity else os.cpu_count() or 1
    most = _MOST.get()
    return known if most is None else min(known, most)


@contextmanager
def at_most_cores(most: int) -> Iterator[None]:
    """Limit the cores that work of this thread uses, within a context."""
    before = _MOST.set(most)
    try:
        yield
    finally:
        _MOST.reset(before)


def on_host() -> AbstractContextManager:
    """Return a context, for one thread, in which JAX computes on the processor's cores.

    Programs that take many small steps, one after the other, are far slower on an
    accelerator, which needs microseconds to begin each of them."""
    try:
        device = jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # JAX was told to leave the processor alone.
        return nullcontext()
    return jax.default_device(device)


_LOCK = threading.Lock()
# The limit of BLAS, and how many are inside of it.
_LIMIT = ExitStack()
_inside = 0


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread within a context. Fits run on threads of their own, one
    for each core, and small matrices take far longer on several threads that wait for
    each other.

    The limit holds for the whole process. Several threads may be inside: the first sets
    it, and the last takes it back."""
    global _inside
    with _LOCK:
        if _inside == 0:
            limit = _controller().limit
            _setter().submit(lambda: _LIMIT.enter_context(limit(limits=1))).result()
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if _inside == 0:
                _setter().submit(_LIMIT.close).result()


@functools.cache
def _setter() -> ThreadPoolExecutor:
    """Return the thread that sets the limit and takes it back: threadpoolctl lets only
    the thread that set a limit take it back."""
    return ThreadPoolExecutor(1, thread_name_prefix="blas-limit")


@functools.cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
