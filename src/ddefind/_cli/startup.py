"""Making commands start quickly, with a cache of compiled programs on disk, and end
quietly if they are interrupted while they start.

While a command loads and compiles, Python's garbage collector is switched off, since it
would take time and find hardly anything.
"""

import gc
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .._util.compile_cache import set_up_cache

# The exit code of an interrupted command.
INTERRUPTED = 130


@contextmanager
def quick_start() -> Iterator[None]:
    """Set up the cache, load JAX, and switch garbage collection off while the context
    lasts. It must be entered before JAX is loaded."""
    set_up_cache()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with quiet_interrupts():
            import equinox  # noqa: F401
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def quiet_interrupts() -> Iterator[None]:
    """While the context lasts, Ctrl-C ends the process at once, with one line. It is
    for the loading of modules, where there is nothing to be kept: an exception would
    end some of them, such as JAX, with a traceback of their own."""
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    with suppress(OSError):
        os.write(2, b"Interrupted.\n")
    os._exit(INTERRUPTED)
