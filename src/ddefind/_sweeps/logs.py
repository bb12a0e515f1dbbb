"""Where records are kept: in memory, or in the log of a folder."""

import abc
import errno
import os
import time
from collections.abc import Iterable, Iterator
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
# A log is bytes on Windows, too, where a file is otherwise opened as a text.
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)


class AbstractLog(abc.ABC):
    """Finished tasks by their numbers. `failed` are those of them without a result."""

    failed: set[int]

    @abc.abstractmethod
    def __len__(self) -> int:
        """How many tasks are recorded."""

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
    def records(self) -> Iterator[dict[str, Any]]:
        """All records, in the order of their numbers."""

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

    def __len__(self) -> int:
        return len(self.lines)

    def numbers(self) -> list[int]:
        return sorted(self.lines)

    def append(self, bodies: dict[int, bytes], failed: set[int]) -> None:
        now = time.time()
        self.lines |= {number: sealed(body, now) for number, body in bodies.items()}
        self.failed.difference_update(bodies)
        self.failed |= failed

    def record(self, number: int) -> dict[str, Any]:
        found = record_of(self.lines[number])
        assert found is not None
        return found

    def records(self) -> Iterator[dict[str, Any]]:
        return map(self.record, self.numbers())

    def sync(self, at_once: bool = False) -> None:
        pass

    def close(self) -> None:
        pass


def whole_records(path: Path) -> Iterator[tuple[dict[str, Any], int, int]]:
    """The records of a log, and where the line of each begins and ends.

    The end of the file may be a line that was cut off, or that is being written
    meanwhile: it is left out."""
    if not path.exists():
        return
    begin = 0
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        for count, line in enumerate(file, 1):
            record, end = record_of(line), begin + len(line)
            if record is None and end < size:
                raise ResultError(
                    f"{file_name(path)}, line {count}: the record was altered. Delete "
                    "this line; its fit is then made again."
                )
            if record is None:
                return
            yield record, begin, end
            begin = end


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
        self.end = 0
        for record, begin, self.end in whole_records(path):
            number = record["number"]
            self.places[number] = begin
            (self.failed.add if ERROR in record else self.failed.discard)(number)
        self.file = -1
        if not is_read_only:
            self.file = os.open(path, _FLAGS, 0o644)
            os.ftruncate(self.file, self.end)

    def __len__(self) -> int:
        return len(self.places)

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
        self.failed.difference_update(bodies)
        self.failed |= failed
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
        (found,) = self._read([number])
        return found

    def records(self) -> Iterator[dict[str, Any]]:
        # Without records there may be no file.
        return self._read(self.numbers()) if self.places else iter(())

    def _read(self, numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        try:
            with open(self.path, "rb") as file:
                for number in numbers:
                    file.seek(self.places[number])
                    found = record_of(file.readline())
                    if found is None or found["number"] != number:
                        raise ResultError(
                            f"{file_name(self.path)}: the file was altered since it "
                            "was read."
                        )
                    yield found
        except OSError as error:
            raise ResultError(f"{file_name(self.path)}: {error.strerror}.") from None

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
