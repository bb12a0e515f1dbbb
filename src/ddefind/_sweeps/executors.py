"""Executors: what a user gives, processes of this machine, and what a worker does.

Anything that takes tasks and returns futures is an executor. Values are sent to other
processes as pickles; nothing that is kept on a disk is a pickle. Functions of a script
or a notebook, and those without a name, are sent as code if `cloudpickle` is installed,
as it is with dask."""

import importlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from multiprocessing import connection
from typing import Any, final

from .._util.errors import shown
from .._util.jax_settings import set_up_cache
from .._util.machine import at_most_cores, one_blas_thread
from .._util.wording import command_line_words
from .database import Row

_ADVICE = (
    "Write the model as text, with `dd.equation`, or put its code in a module of its "
    "own that the workers can import"
)
_INSTALL = "or `pip install cloudpickle`"
# The module under which the functions of a script are pickled.
_SCRIPT = b"__main__"
_NEVER_RAN = (
    "The processes of this sweep ended at once. A script that starts processes needs "
    'the line `if __name__ == "__main__":` before its work, since they read it, too.'
)

# A function that runs the tasks of a chunk. Each row has a result or says why not.
Run = Callable[[Any], list[Row]]


@final
class CannotLoad(Exception):
    """An error of a worker that cannot load what it was sent."""


@final
class CannotStart(RuntimeError):
    """An error for processes that end before their first task."""


@contextmanager
def executor_of(given: Any) -> Iterator[Any]:
    """Yield an executor: an object with `submit`; the one from `get_executor`, which a
    client of dask has; or a number of processes, which end here."""
    if hasattr(given, "get_executor"):
        yield given.get_executor()
    elif callable(getattr(given, "submit", None)) and not isinstance(given, type):
        yield given
    elif isinstance(given, int) and not isinstance(given, bool) and given >= 1:
        processes = LocalProcesses(given)
        try:
            yield processes
        finally:
            processes.end()
    else:
        raise TypeError(
            "`executor` must be a number of processes from 1 on, a client of dask, or "
            "an executor as of `concurrent.futures`, which has `submit`, but got "
            f"{shown(given)}."
        )


@final
class LocalProcesses:
    """An executor with this many processes of one core each. One that dies is replaced.

    Each process is a pool by itself, so that its end costs only the task that it ran. A
    process is spawned, not forked: JAX has threads, which a fork does not copy. It ends
    with the process that started it, however that ends."""

    def __init__(self, count: int):
        self.of_thread = threading.local()
        self.threads = ThreadPoolExecutor(count, thread_name_prefix="sweep")
        self.pools: set[ProcessPoolExecutor] = set()
        self.is_closed = False

    def submit(self, function: Callable, /, *arguments: Any, **named: Any) -> Future:
        """Run the function in the next free process."""
        return self.threads.submit(self._run, function, arguments, named)

    def _run(self, function: Callable, arguments: tuple, named: dict) -> Any:
        """Run the function in the process of this thread."""
        pool = getattr(self.of_thread, "pool", None)
        if pool is None:
            self.of_thread.pool = pool = self._started()
        try:
            return pool.submit(function, *arguments, **named).result()
        except BrokenProcessPool:
            self._drop(pool)
            raise

    def _started(self) -> ProcessPoolExecutor:
        """Start a process, and wait until it runs."""
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(1, mp_context=context, initializer=_begin)
        self.pools.add(pool)
        try:
            if self.is_closed:  # `end` may have run before this pool was added
                raise BrokenProcessPool
            pool.submit(os.getpid).result()
        except BrokenProcessPool:
            self._drop(pool)
            if self.is_closed:
                raise
            raise CannotStart(_NEVER_RAN) from None
        return pool

    def _drop(self, pool: ProcessPoolExecutor) -> None:
        """Forget the pool of this thread, whose process has ended."""
        self.of_thread.pool = None
        self.pools.discard(pool)
        pool.shutdown(wait=False, cancel_futures=True)

    def end(self) -> None:
        """End the processes at once, with what they run."""
        self.is_closed = True
        self.threads.shutdown(wait=False, cancel_futures=True)
        for pool in list(self.pools):
            for process in list((getattr(pool, "_processes", None) or {}).values()):
                with suppress(OSError, ValueError):
                    process.kill()
            pool.shutdown(wait=False, cancel_futures=True)
        self.threads.shutdown()


def _begin() -> None:
    """Prepare a process: it ignores Ctrl-C, which its parent handles, has one thread,
    and ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update({"OMP_NUM_THREADS": "1", "PJRT_NPROC": "1"})
    parent: Any = multiprocessing.parent_process()

    def end_with_parent() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def packed(value: Any) -> bytes:
    """Return a value as bytes, or raise an error that says what cannot be sent."""
    failures = (pickle.PicklingError, AttributeError, TypeError)
    plain, advice = None, f"{_ADVICE}."
    try:
        plain = pickle.dumps(value)
        if _SCRIPT not in plain:
            return plain
        reason: Any = None
    except failures as error:
        reason = error
    try:
        return importlib.import_module("cloudpickle").dumps(value)
    except ImportError:
        if plain is not None:
            return plain
        advice = f"{_ADVICE}, {_INSTALL}."
    except failures as error:
        reason = error
    raise ValueError(f"The fits cannot be sent to other processes: {reason}. {advice}")


def _unpacked(content: bytes) -> Any:
    """Return the value again, in a worker."""
    try:
        return pickle.loads(content)
    except (ImportError, AttributeError) as error:
        raise CannotLoad(
            f"A worker cannot load what is to be fitted: {error}. {_ADVICE}, "
            f"{_INSTALL} here and where the workers are."
        ) from None
    except (TypeError, ValueError, pickle.UnpicklingError, EOFError) as error:
        raise CannotLoad(
            f"A worker cannot load what is to be fitted ({error}). Does it have the "
            "same versions of Python and ddefind?"
        ) from None


# What all chunks of a sweep share is loaded once, so that its compiled programs are
# found again.
_unpacked_once = lru_cache(maxsize=4)(_unpacked)


def run_here(run: Run, tasks: Any) -> list[Row]:
    """Run a chunk on one core of this process."""
    with at_most_cores(1), one_blas_thread():
        return run(tasks)


def run_packed(
    run: bytes, tasks: bytes, is_for_command_line: bool, attempt: int
) -> list[Row]:
    """Run a chunk in another process, perhaps with the sentences of the command line.

    `attempt` makes a repeated chunk another task for a scheduler that reuses results.
    """
    set_up_cache()
    is_child = multiprocessing.parent_process() is not None
    if is_child and threading.current_thread() is threading.main_thread():
        # Ctrl-C is for the process that started this one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with command_line_words() if is_for_command_line else nullcontext():
        return run_here(_unpacked_once(run), _unpacked(tasks))
