"""What a user gives as an executor: anything that takes tasks and returns futures."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from .._util.cores import cores
from .._util.errors import shown
from .local_processes import LocalProcesses


@contextmanager
def executor_of(given: Any) -> Iterator[Any]:
    """The executor: an object that has `submit`; a client of dask, or whatever else has
    `get_executor`; or a number of processes of this machine.

    Processes that were made here end here."""
    if isinstance(given, bool) or (isinstance(given, int) and given < 1):
        _refuse(given)
    if isinstance(given, int):
        processes = LocalProcesses(given)
        try:
            yield processes
        finally:
            processes.end()
    elif hasattr(given, "get_executor"):
        yield given.get_executor()
    elif callable(getattr(given, "submit", None)) and not isinstance(given, type):
        yield given
    else:
        _refuse(given)


@contextmanager
def threads_of(workers: int | None = None) -> Iterator[ThreadPoolExecutor]:
    """Threads of this process, one for each core."""
    with ThreadPoolExecutor(workers or cores(), thread_name_prefix="sweep") as pool:
        yield pool


def _refuse(given: Any) -> None:
    raise TypeError(
        "`executor` must be a number of processes from 1 on, a client of dask, or an "
        "executor as of `concurrent.futures`, which has `submit`, but got "
        f"{shown(given)}."
    )
