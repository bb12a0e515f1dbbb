"""What a worker does: it runs one chunk at a time, on one core."""

import multiprocessing
import pickle
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from .._util.blas_threads import one_blas_thread
from .._util.compile_cache import set_up_cache
from .._util.cores import at_most_cores
from .._util.wording import command_line_words
from .packing import CannotLoad, unpacked, unpacked_once

# What runs the tasks of a chunk and returns the body of a record for each; or says for
# each why there is no result.
Run = Callable[[Sequence[Any]], list[bytes]]


def run_here(run: Run, tasks: Sequence[Any]) -> list[bytes]:
    """Run a chunk on one core of this process."""
    with at_most_cores(1), one_blas_thread():
        return run(tasks)


def run_packed(
    run: bytes, tasks: bytes, is_for_command_line: bool, attempt: int
) -> list[bytes]:
    """Run a chunk in a process of its own, with sentences in the words of the user. A
    further `attempt` is another task for a scheduler that remembers what it did."""
    set_up_cache()
    _leave_interrupts_to_parent()
    try:
        shared, own = unpacked_once(run), unpacked(tasks)
    except CannotLoad:
        raise
    except (TypeError, ValueError, pickle.UnpicklingError, EOFError) as error:
        raise CannotLoad(
            f"A worker cannot load what is to be fitted ({error}). Does it have the "
            "same versions of Python and ddefind?"
        ) from None
    with command_line_words() if is_for_command_line else nullcontext():
        return run_here(shared, own)


def _leave_interrupts_to_parent() -> None:
    """In a process that was started for this: Ctrl-C is for the one that started it,
    which ends its workers or lets them finish."""
    is_child = multiprocessing.parent_process() is not None
    if is_child and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
