"""Processes of this machine as an executor. One that dies is replaced.

Each process is a pool by itself, so that its end costs the one task that it ran. A
process is spawned, not forked: JAX has threads, which a fork does not copy. It ends
with the process that started it, however that ends."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import connection
from typing import Any, final

_NEVER_RAN = (
    "The processes of this sweep ended as soon as they began. A script that starts "
    'some needs the line `if __name__ == "__main__":` before what it does, since they '
    "read it, too."
)
# Each process has one core.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "PJRT_NPROC": "1"}


@final
class CannotStart(RuntimeError):
    """Processes that end before their first task."""


@final
class LocalProcesses:
    """An executor with so many processes, of one core each."""

    def __init__(self, count: int):
        self.own = threading.local()
        self.threads = ThreadPoolExecutor(count, thread_name_prefix="sweep")
        self.pools: set[ProcessPoolExecutor] = set()
        self.is_closed = False

    def submit(self, function: Callable, /, *arguments: Any, **named: Any) -> Future:
        """Run the function in the next process that is free."""
        return self.threads.submit(self._run, function, arguments, named)

    def _run(self, function: Callable, arguments: tuple, named: dict) -> Any:
        """Run the function in the process of this thread."""
        pool = getattr(self.own, "pool", None)
        if pool is None:
            self.own.pool = pool = self._started()
        try:
            return pool.submit(function, *arguments, **named).result()
        except BrokenProcessPool:
            self._drop(pool)
            raise

    def _started(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(1, mp_context=context, initializer=_begin)
        self.pools.add(pool)
        try:
            if self.is_closed:  # `end` may have come before this pool was there
                raise BrokenProcessPool
            pool.submit(os.getpid).result()
        except BrokenProcessPool:
            self._drop(pool)
            if self.is_closed:
                raise
            raise CannotStart(_NEVER_RAN) from None
        return pool

    def _drop(self, pool: ProcessPoolExecutor) -> None:
        self.own.pool = None
        self.pools.discard(pool)
        pool.shutdown(wait=False, cancel_futures=True)

    def end(self) -> None:
        """End the processes at once, and with them what they run."""
        self.is_closed = True
        self.threads.shutdown(wait=False, cancel_futures=True)
        for pool in list(self.pools):
            _end(pool)
            pool.shutdown(wait=False, cancel_futures=True)
        self.threads.shutdown()


def _end(pool: ProcessPoolExecutor) -> None:
    """End the process of a pool, whatever it does."""
    for process in list((getattr(pool, "_processes", None) or {}).values()):
        with suppress(OSError, ValueError):
            process.kill()


def _begin() -> None:
    """What a process does first: leave Ctrl-C to the one that started it, limit its
    threads, and watch that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(_ONE_THREAD)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    connection.wait([parent.sentinel])
    os._exit(1)
