"""How many processor cores the process may use."""

import os


def cores() -> int:
    """Return the number of cores that this process may use, at least 1.

    On Linux this respects the process's CPU affinity, which a batch system or a
    container may have restricted to fewer cores than the machine has.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
