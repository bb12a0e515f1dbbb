"""What the XLA setting is worth: the same loops with XLA's own limit instead."""

import os
from collections.abc import Iterator

import numpy as np

from ._report import Row, microseconds
from ._timing import in_fresh_process

TITLE = "Without the XLA setting; figure: times the cost with it"
_REPEATS, _EPOCHS = 3, 100
_OPTION = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1024"
_CODE = """
import time
import numpy as np
import ddefind as dd
from benchmarks import _cases, _loops, _timing

job = _loops.gradient_loop(_cases.paper({case!r}), dd.SumOfSquares(), {epochs})
times = _timing.in_turn(dict(job=job), 5, time.process_time)["job"]
print(np.median(times) / {epochs})
"""


def rows() -> Iterator[Row]:
    plain = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    for case in ("exponential", "hiv"):
        code = _CODE.format(case=case, epochs=_EPOCHS)
        pairs = [
            (
                in_fresh_process(code, plain),
                in_fresh_process(code, plain | {"XLA_FLAGS": _OPTION}),
            )
            for _ in range(_REPEATS)
        ]
        set_, unset = np.median(pairs, axis=0)
        times = float(np.median([b / a for a, b in pairs]))
        name = f"{case}, SumOfSquares"
        yield Row(name, microseconds(unset), times, note=f"with {microseconds(set_)}")
