"""Where records are kept: in memory, or in the log of a folder."""

import abc
import errno
import os
import time
from pathlib import Path
from typing import Any, NoReturn, final

from .._util.errors import ResultError
from .._util.text_files import file_name
from .records import record_of, sealed

NAME = "fits.jsonl"
# So many seconds may pass before a record is on the disk.
_SECONDS = 1.0
# A record of a task that has no result has this entry: a sentence that says why.
ERROR = "error"


class AbstractLog(abc.ABC):
    """Finished tasks by their numbers. `failed` are those of them without a result."""

    failed: set[int]

    @abc.abstractmethod
    def numbers(self) -> list[int]:
        """The numbers of the tasks that are recorded, in order."""

    @abc.abstractmethod
    def append(self, bodies: dict[int, bytes], failed: set[int]) -> None:
        """Keep the records of some tasks, of which some have no result. A record takes
        the place of an earlier one of the same number."""

    @abc.abstractmethod
    def record(self, number: int) -> dict[str, Any]:
        """The record of a task."""

    @abc.abstractmethod
    def sync(self, at_once: bool = False) -> None:
        """Put on the disk what was written, if that is due."""

    @abc.abstractmethod
    def close(self) -> None:
        """Nothing is written any more; records can still be read."""


@final
class MemoryLog(AbstractLog):
    """Records in memory, which end with the process."""

    def __init__(self) -> None:
        self.failed = set()
        self.lines: dict[int, bytes] = {}

    def numbers(self) -> list[int]:
        return sorted(self.lines)

    def append(self, bodies: dict[int, bytes], failed: set[int]) -> None:
        now = time.time()
        self.lines |= {number: sealed(body, now) for number, body in bodies.items()}
        self.failed = (self.failed - set(bodies)) | failed

    def record(self, number: int) -> dict[str, Any]:
        found = record_of(self.lines[number])
        assert found is not None
        return found

    def sync(self, at_once: bool = False) -> None:
        pass

    def close(self) -> None:
        pass


@final
class FileLog(AbstractLog):
    """A file to which records are appended, one line each. `places` says where the line
    of each task begins.

    A record that was cut off at the end, as where the machine lost its power, is
    dropped. Whoever opens a log for writing holds the lock of its folder."""

    def __init__(self, path: Path, *, is_read_only: bool = False):
        self.path, self.failed = path, set()
        self.places: dict[int, int] = {}
        self.synced, self.is_synced = time.monotonic(), True
        self.end = self._read() if path.exists() else 0
        self.file = -1
        if not is_read_only:
            self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            os.ftruncate(self.file, self.end)

    def _read(self) -> int:
        """Find all records; where the last whole one ends."""
        end = 0
        with open(self.path, "rb") as file:
            for count, line in enumerate(file, 1):
                record = record_of(line)
                if record is None:
                    if file.read(1):
                        raise ResultError(
                            f"{file_name(self.path)}, line {count}: the record was "
                            "altered. Delete this line; its fit is then made again."
                        )
                    break
                number = int(record["number"])
                self.places[number] = end
                failed = ERROR in record
                (self.failed.add if failed else self.failed.discard)(number)
                end += len(line)
        return end

    def numbers(self) -> list[int]:
        return sorted(self.places)

    def append(self, bodies: dict[int, bytes], failed: set[int]) -> None:
        now, places, lines = time.time(), {}, []
        end = self.end
        for number, body in bodies.items():
            line = sealed(body, now)
            places[number] = end
            end += len(line)
            lines.append(line)
        try:
            self._write(b"".join(lines))
        except BaseException as error:
            os.ftruncate(self.file, self.end)  # no record is cut off
            if isinstance(error, OSError):
                self._cannot_write(error)
            raise
        self.end, self.is_synced = end, False
        self.places |= places
        self.failed = (self.failed - set(bodies)) | failed
        self.sync()

    def _write(self, content: bytes) -> None:
        left, place = memoryview(content), self.end
        os.ftruncate(self.file, place)
        while left:
            os.lseek(self.file, place, os.SEEK_SET)
            written = os.write(self.file, left)
            left, place = left[written:], place + written

    def _cannot_write(self, error: OSError) -> NoReturn:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full" if is_full else f"it cannot be written: {error}"
        what = "Make room" if is_full else "Repair that"
        raise OSError(
            error.errno,
            f"{file_name(self.path)}: {why}. The {len(self.places)} fits that were "
            f"recorded are kept. {what}, and start again: it goes on from there",
        ) from None

    def record(self, number: int) -> dict[str, Any]:
        try:
            with open(self.path, "rb") as file:
                file.seek(self.places[number])
                found = record_of(file.readline())
        except OSError as error:
            raise ResultError(f"{file_name(self.path)}: {error.strerror}.") from None
        if found is None or found["number"] != number:
            raise ResultError(
                f"{file_name(self.path)}: the file was altered since it was read."
            )
        return found

    def sync(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if self.is_synced or (now - self.synced < _SECONDS and not at_once):
            return
        try:
            os.fsync(self.file)
        except OSError as error:
            self._cannot_write(error)
        self.synced, self.is_synced = now, True

    def close(self) -> None:
        if self.file < 0:
            return
        try:
            self.sync(at_once=True)
        finally:
            os.close(self.file)
            self.file = -1
