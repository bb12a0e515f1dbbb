"""Making commands start quickly, with a cache of compiled programs on disk, and end
quietly if they are interrupted while they start.

JAX keeps compiled programs in the user's cache folder, so that the next command need
not compile them again. The environment variable `DDEFIND_CACHE` names another folder,
or is `off`. A cache that is already set up for JAX is left as it is. While a command
loads and compiles, Python's garbage collector is switched off, since it would take time
and find hardly anything.
"""

import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# The exit code of an interrupted command.
INTERRUPTED = 130
# If the cache holds more files than this, some hundred megabytes, the older half is
# deleted.
_MOST_FILES = 2000


@contextmanager
def quick_start() -> Iterator[None]:
    """Set up the cache, load JAX, and switch garbage collection off while the context
    lasts. It must be entered before JAX is loaded."""
    _set_up_cache()
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


def _set_up_cache() -> None:
    """Let JAX use the cache folder, unless it is switched off, set already, or cannot
    be written."""
    wanted = os.environ.get("DDEFIND_CACHE", "")
    if wanted.lower() in ("off", "0", "no", "false"):
        return
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    folder = Path(wanted) if wanted else _user_cache() / "ddefind"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _delete_old_programs(folder)
    except (OSError, RuntimeError):  # RuntimeError: the user has no home folder
        return
    if not os.access(folder, os.W_OK):
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    # By default JAX keeps only programs that take a second to compile. Ours take less.
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    # A program that cannot be read is compiled again, so there is no need to warn.
    warnings.filterwarnings("ignore", message=".*persistent compilation cache.*")


def _user_cache() -> Path:
    """Return the folder for caches on this operating system."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _delete_old_programs(folder: Path) -> None:
    """Delete the older half of the programs if there are too many."""
    with os.scandir(folder) as entries:
        files = [entry for entry in entries if entry.name.endswith("-cache")]
    if len(files) > _MOST_FILES:
        files.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in files[: len(files) // 2]:
            Path(entry.path).unlink(missing_ok=True)
