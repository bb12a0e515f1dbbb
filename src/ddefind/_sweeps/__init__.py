"""Sweeps: many fits as numbered tasks, on many workers, and kept as they end.

A sweep is a list of numbered tasks, cut into chunks that depend on the numbers alone
(`chunks.py`). `schedule.py` hands chunks to an executor, gives those of a worker that
died to another one, and stops at Ctrl-C. `executors.py` reads what the user gives as an
executor; `local_processes.py` is our own, processes that are replaced when they die.
`packing.py` is the way of a chunk to another process, and `worker.py` what that process
does with it.

A finished task is a record (`records.py`), a line of the log of a `folder.py`, which
one sweep at a time may write (`lock.py`). Its `manifest.py` says by `digest.py` which
model, data and settings the records belong to. `overview.py` tells of a folder how far
its sweep is. Nothing here knows what a task is: `_fitting/sweep.py` says it for fits.
Begin with `schedule.py` and `folder.py`.

May import: `_util`.
"""
