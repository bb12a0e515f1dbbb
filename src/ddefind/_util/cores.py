"""How many processor cores the process may use."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# The most cores that the work of this thread may use.
_MOST: ContextVar[int | None] = ContextVar("most cores", default=None)


def cores() -> int:
    """Return the number of cores that this process may use, at least 1.

    On Linux this respects the process's CPU affinity, which a batch system or a
    container may have restricted to fewer cores than the machine has.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    known = len(affinity(0)) if affinity else os.cpu_count() or 1
    most = _MOST.get()
    return known if most is None else min(known, most)


@contextmanager
def at_most_cores(most: int) -> Iterator[None]:
    """A context in which work that this thread begins uses no more cores than that."""
    before = _MOST.set(most)
    try:
        yield
    finally:
        _MOST.reset(before)
