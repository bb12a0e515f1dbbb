"""The lock of a folder: one process at a time writes there.

The operating system holds it and takes it back when the process ends, however that
happens, so that no old lock is ever in the way."""

import os
from pathlib import Path
from typing import IO, Any

from .._util.text_files import file_name

NAME = "lock"


def locked(folder: Path) -> IO[Any] | None:
    """The open file that holds the lock of a folder until it is closed; None if another
    process holds it."""
    file = open(folder / NAME, "a+b")
    try:
        if _lock(file):
            return file
    except OSError as error:
        file.close()
        raise OSError(
            error.errno,
            f"{file_name(folder)}: this file system has no locks "
            f"({error.strerror}), which keep two sweeps apart. Choose a folder on "
            "another one",
        ) from None
    file.close()
    return None


def is_locked(folder: Path) -> bool:
    """Whether a process writes to the folder now."""
    if not os.access(folder / NAME, os.W_OK):
        return False
    try:
        file = locked(folder)
    except OSError:
        return False
    if file is None:
        return True
    file.close()
    return False


def _lock(file: IO[Any]) -> bool:
    """Lock an open file; False if it is locked already."""
    try:
        import fcntl
    except ImportError:  # Windows
        return _lock_on_windows(file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_on_windows(file: IO[Any]) -> bool:
    import msvcrt

    windows: Any = msvcrt
    file.seek(0)
    try:
        windows.locking(file.fileno(), windows.LK_NBLCK, 1)
    except PermissionError:
        return False
    return True
