"""Sweeps: many fits as numbered tasks, on many workers, and kept as they end.

`schedule.py` cuts numbered tasks into chunks and hands these to an executor; it repeats
the chunk of a worker that died, and stops at Ctrl-C. `executors.py` reads the executor
of the user, has processes that are replaced when they die, and runs chunks in workers.
`database.py` keeps finished tasks, in memory or in a folder that one sweep at a time
may write, and refuses another sweep, by the digests of `digest.py`. What a task is
stands in `_fitting/sweep.py`. Begin with `schedule.py` and `database.py`.

May import: `_util`."""
