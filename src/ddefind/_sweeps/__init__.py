"""Sweeps: many fits as numbered tasks, on many workers, and kept as they end.

`schedule.py` cuts numbered tasks into chunks, hands these to an executor, gives those
of a worker that died to another one, and stops at Ctrl-C. `executors.py` reads what the
user gives as an executor, has processes of its own that are replaced when they die, and
says what a worker does. `database.py` keeps finished tasks, in memory or in a folder
that one sweep at a time may write, and refuses to go on with another sweep, which it
recognises by `digest.py`. Nothing here knows what a task is: `_fitting/sweep.py` says
it for fits. Begin with `schedule.py` and `database.py`.

May import: `_util`.
"""
