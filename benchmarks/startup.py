"""What a user waits for first: the import, and the first gradient, with compiling."""

import os
from collections.abc import Iterator

import numpy as np

from ._report import Row
from ._timing import in_fresh_process

TITLE = "Start, in fresh processes; figure: seconds"
_REPEATS = 3

_IMPORT = """
import time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""

_FIRST = """
import time
import jax
import numpy as np
import ddefind as dd

start = time.perf_counter()
model, history = dd.models.Logistic(1.0, 1.0), dd.Periodic(-0.25, 6.0, 2.6)
problem = dd.Problem(model, history, tau=0.5)
t = np.linspace(0.0, 10.0, 101)
jax.block_until_ready(dd.value_and_grad(problem, dd.Data(t, 1 + np.sin(t) / 2)))
print(time.perf_counter() - start)
"""


def rows() -> Iterator[Row]:
    jobs = {
        "import jax": (_IMPORT.format(module="jax"), None),
        "import ddefind": (_IMPORT.format(module="ddefind"), 1.1),
        "first value_and_grad of Logistic": (_FIRST, 0.8),
    }
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(_REPEATS):
        for name, (code, _) in jobs.items():
            seconds[name].append(in_fresh_process(code, os.environ))
    for name, (_, goal) in jobs.items():
        median = float(np.median(seconds[name]))
        yield Row(name, f"{median:.2f} s", median, goal)
