"""The folder of a sweep: `sweep.json`, what it is of; `fits.jsonl`, its log; `lock`."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._util import wording
from .._util.errors import ResultError
from .._util.text_files import file_name
from . import logs, manifest as manifests
from .lock import locked
from .logs import FileLog
from .manifest import Manifest, check_same, read_manifest, write_manifest


@contextmanager
def opened(
    folder: Path, given: Manifest, changed: Callable[[FileLog], str]
) -> Iterator[tuple[FileLog, Manifest]]:
    """The log of a sweep for writing, and its manifest: a new one, or that of the same
    sweep, which goes on. A finished one need not be writable. `changed(log)` says which
    data have changed."""
    path = folder / logs.NAME
    if not _is_writable(folder) and (found := read_manifest(folder)) is not None:
        given, past = _with_width_of(found, given), FileLog(path, is_read_only=True)
        check_same(folder, found, given, changed(past))
        if len(past) < found.tasks:
            _make(folder)  # which says that it cannot be written
        yield past, found
        return
    with locked_folder(folder):
        found = read_manifest(folder)
        if found is None:
            if path.exists():
                raise ResultError(
                    f"{file_name(folder)}: it has records of a sweep, but no file "
                    f"{manifests.NAME} that says of which. Choose another folder."
                )
            write_manifest(folder, given)
            found = given
        elif vars(found) != vars(given):
            given = _with_width_of(found, given)
            past = FileLog(path, is_read_only=True)
            check_same(folder, found, given, changed(past))
        log = FileLog(path)
        _sync(folder)
        try:
            yield log, found
        finally:
            log.close()


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """A folder, made if need be, in which no other sweep works meanwhile."""
    _make(folder)
    lock = locked(folder)
    if lock is None:
        raise ResultError(
            f"{file_name(folder)}: another sweep is at work in this folder. Wait for "
            "its end, or choose another folder."
        )
    with lock:
        yield


def _with_width_of(found: Manifest, given: Manifest) -> Manifest:
    """The manifest with the chunks of the one that was found: a sweep that began on
    other hardware keeps them."""
    return Manifest(
        given.tasks, found.width, given.digests, given.versions, given.about
    )


def _make(folder: Path) -> None:
    """Make the folder, or say why it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason: Any = error.strerror
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason = "there is a file in its place"
        raise OSError(
            error.errno,
            f"{wording.SWEEP_FOLDER}: {file_name(folder)} cannot be made: {reason}",
        ) from None
    if not _is_writable(folder):
        raise PermissionError(
            f"{wording.SWEEP_FOLDER}: {file_name(folder)} cannot be written. Choose a "
            "folder of your own."
        )


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


def _sync(folder: Path) -> None:
    """Put the names of the files, and the manifest, on the disk."""
    if os.name != "posix":
        return
    for path in (folder / manifests.NAME, folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
