"""What makes a command start soon.

Compiled programs are kept on disk from one command to the next: JAX is asked to keep
them in the user's cache folder. `DDEFIND_CACHE` names another folder, or is `off`; a
cache that is set up for JAX already is left alone. And while a command loads and
compiles, Python does not look for garbage, of which there is none to speak of."""

import gc
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Beyond so many files the older half goes: some hundred megabytes.
_MOST = 2000


@contextmanager
def quick_start() -> Iterator[None]:
    """For a command that computes; to be entered before JAX is loaded."""
    _keep_programs()
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _keep_programs() -> None:
    """Where there is no folder for it, there is no cache."""
    wish = os.environ.get("DDEFIND_CACHE", "")
    if wish.lower() in ("off", "0", "no", "false"):
        return
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    folder = Path(wish) if wish else _user_cache() / "ddefind"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _prune(folder)
    except (OSError, RuntimeError):  # no such folder can be made; there is no home
        return
    if not os.access(folder, os.W_OK):
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    # Ours take half a second to compile, and JAX alone keeps those of a second on.
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    # An entry that cannot be read is compiled again: nothing that a user must know.
    warnings.filterwarnings("ignore", message=".*persistent compilation cache.*")


def _user_cache() -> Path:
    """Where programs of this system keep what they can do without."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _prune(folder: Path) -> None:
    with os.scandir(folder) as entries:
        files = [entry for entry in entries if entry.name.endswith("-cache")]
    if len(files) > _MOST:
        files.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in files[: len(files) // 2]:
            Path(entry.path).unlink(missing_ok=True)
