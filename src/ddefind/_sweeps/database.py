"""The folder of a sweep: `fits.sqlite`, with a row for each finished fit, and `lock`.

One process writes what its workers return. It uses SQLite's rollback journal, not its
write-ahead log, which does not work on network folders; between two commits others can
read. `lock` is an empty database on which the writer holds SQLite's exclusive lock from
beginning to end. The operating system releases it when the process ends, however that
happens, so that no old lock is ever in the way."""

import errno
import json
import os
import sqlite3
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, final

from .._util import wording
from .._util.errors import ResultError
from .._util.files import file_name, nonfinite_as_words, write_whole

NAME, LOCK = "fits.sqlite", "lock"
FILES = (NAME, f"{NAME}-journal", LOCK)
# Files of earlier versions.
_OLD = ("sweep.json", "fits.jsonl")
# SQLite's own header has these, which say what the file is.
_APPLICATION, _VERSION = int.from_bytes(b"ddef"), 1
_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
CREATE TABLE sweep (
    tasks INTEGER, width INTEGER, about TEXT, model TEXT, data TEXT, settings TEXT,
    versions TEXT
);
CREATE TABLE fits (
    number INTEGER PRIMARY KEY, label TEXT, status TEXT, error TEXT, record TEXT,
    fit BLOB, at REAL
);
"""
# Errors of SQLite for a file that is not what was written.
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
# Seconds that a reader and the writer wait for each other, and that a sweep waits for a
# `status` that looks at the lock.
_PATIENCE, _PATIENCE_FOR_LOCK = 60.0, 0.2
# The speed of a sweep follows from this many last rows.
_RECENT = 200
_CHOOSE = "or choose another folder"


@final
class Row(NamedTuple):
    """A finished task. `error` says why it has no result, or is None. `record` is JSON;
    `fit` are compressed details, which are read one at a time."""

    number: int
    label: str | None
    status: str
    error: str | None
    record: str
    fit: bytes | None


def row_of(
    number: int,
    label: str | None,
    status: str,
    record: dict[str, Any],
    *,
    fit: dict[str, Any] | None = None,
    error: str | None = None,
) -> Row:
    """Make the row of a task. Floats keep every digit; NaN and infinite ones become the
    words "NaN", "Infinity" and "-Infinity"."""

    def text(content: dict[str, Any]) -> str:
        plain = nonfinite_as_words(content)
        return json.dumps(plain, allow_nan=False, separators=(",", ":"))

    details = None if fit is None else zlib.compress(text(fit).encode(), 6)
    return Row(number, label, status, error, text(record), details)


@final
@dataclass(frozen=True)
class Sweep:
    """What the fits of a folder belong to. `width` is the number of tasks in a chunk;
    `about` is the model in words; `model`, `data` and `settings` are digests."""

    tasks: int
    width: int
    about: str
    model: str
    data: str
    settings: str
    versions: Mapping[str, str]

    def check_same(
        self, folder: Path, given: "Sweep", changed: Callable[[], str]
    ) -> None:
        """Refuse to go on with another sweep. `changed()` says which data differ."""
        on = "to go on with it"
        if self.versions != given.versions:
            what = (
                f"was begun with {_listed(self.versions)}, but here are "
                f"{_listed(given.versions)}, whose digits may differ. Install the "
                "former"
            )
        elif self.model != given.model:
            what = f"is of another model, {self.about!r}. Give the same model {on}"
        elif self.tasks != given.tasks:
            counts = f"has {self.tasks} fits, but these are {given.tasks}"
            what = f"{counts}. Give the same ones {on}"
        elif self.data != given.data:
            what = f"is of other data{changed()}. Give the same data {on}"
        elif self.settings != given.settings:
            names = "other settings (method, starts, bounds, seed ...)"
            what = f"has {names}. Give the same ones {on}"
        else:
            return
        raise ResultError(
            f"{file_name(folder)}: the sweep in this folder {what}, {_CHOOSE}."
        )


def _listed(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


@final
class Database:
    """Finished tasks by their numbers, in a file or, without a path, in memory.

    `errors` are the sentences of tasks without a result. Whoever writes to a file holds
    the lock of its folder. After `close`, rows can still be read."""

    def __init__(self, path: Path | None = None):
        self.path = path
        self.connection: sqlite3.Connection | None = None
        if path is None:
            # Single fits are read in any thread.
            self.connection = sqlite3.connect(":memory:", check_same_thread=False)
            self.connection.executescript(_SCHEMA)
        with self._reading() as connection:
            rows = connection.execute("SELECT number, error FROM fits").fetchall()
        self.numbers = {number for number, _ in rows}
        self.errors = {number: error for number, error in rows if error is not None}

    def __len__(self) -> int:
        return len(self.numbers)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection that writes, or one for this time. What the block cannot
        read is a damaged file."""
        with _errors_as_sentences(self.path):
            if self.connection is not None:
                yield self.connection
            elif self.path is not None:
                with closing(_checked(self.path)) as connection:
                    yield connection

    def sweep(self) -> Sweep:
        """Read what the fits of this file belong to."""
        with self._reading() as connection:
            *texts, versions = connection.execute("SELECT * FROM sweep").fetchone()
            return Sweep(*texts, versions=json.loads(versions))

    @contextmanager
    def rows(self) -> Iterator[Iterator[tuple[int, str, dict[str, Any]]]]:
        """Yield number, status and record of all tasks, in order. A value that the
        block cannot use is damage of the file."""
        with self._reading() as connection:
            wanted = "SELECT number, status, record FROM fits ORDER BY number"
            # An open cursor would keep the file locked.
            with closing(connection.execute(wanted)) as rows:
                yield (
                    (number, status, json.loads(text)) for number, status, text in rows
                )

    def fit(self, number: int) -> dict[str, Any]:
        """Read the details of a task."""
        wanted = "SELECT fit FROM fits WHERE number = ?"
        with self._reading() as connection:
            (details,) = connection.execute(wanted, (number,)).fetchone()
            return json.loads(zlib.decompress(details))

    def write(self, rows: Sequence[Row]) -> None:
        """Write rows, all or none. A row replaces an earlier one of its number."""
        if not rows:
            return
        now, insert = time.time(), "INSERT OR REPLACE INTO fits VALUES (?,?,?,?,?,?,?)"
        with _errors_as_sentences(self.path, len(self)):
            if self.connection is None:
                assert self.path is not None
                self.connection = _checked(self.path)
                self.connection.execute("PRAGMA journal_mode = DELETE")
            with self.connection:
                self.connection.executemany(insert, [(*row, now) for row in rows])
        for row in rows:
            self.numbers.add(row.number)
            self.errors.pop(row.number, None)
            if row.error is not None:
                self.errors[row.number] = row.error

    def close(self) -> None:
        """Close the connection that writes to the file."""
        if self.path is not None and self.connection is not None:
            self.connection.close()
            self.connection = None


def _connected(path: Path, mode: str, patience: float) -> sqlite3.Connection:
    place = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(place, patience, check_same_thread=False, uri=True)


def _checked(path: Path) -> sqlite3.Connection:
    """Open the database of a sweep. Even a reader may have to restore, from SQLite's
    journal, what the end of a process interrupted."""
    connection = _connected(path, "rw", _PATIENCE)
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION:
            raise ResultError(
                f"{file_name(path)}: this is not a file of a sweep of ddefind. Choose "
                "another folder."
            )
        if version > _VERSION:
            raise ResultError(
                f"{file_name(path)}: it was written by a newer ddefind, in format "
                f"{version}. This one reads formats up to {_VERSION}: install the "
                "newer."
            )
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        if path.stat().st_size % page:
            raise ValueError("it was cut off")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _errors_as_sentences(path: Path | None, recorded: int = -1) -> Iterator[None]:
    """Say in a sentence what SQLite reports, or that a value is not what was written.
    A writer gives the number of fits `recorded`."""
    name = "memory" if path is None else file_name(path)
    kept = f" The {recorded} fits that were recorded are kept."
    again = "start again: it goes on from there"
    try:
        yield
    except ResultError:
        raise
    except (sqlite3.Error, zlib.error, LookupError, TypeError, ValueError) as error:
        # The low byte is the kind of the error; one without a code is of a value.
        kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if kind in _DAMAGED:
            raise ResultError(
                f"{name}: the file is damaged ({error}). Put a copy in its place, or "
                f"delete it, so that its fits are made again, {_CHOOSE}."
            ) from None
        if kind == sqlite3.SQLITE_BUSY:
            raise ResultError(
                f"{name}: another program has kept it locked for {_PATIENCE:.0f} "
                f"seconds.{kept if recorded >= 0 else ''} End that program, and start "
                "again."
            ) from None
        if recorded < 0:
            raise ResultError(f"{name}: it cannot be read: {error}.") from None
        if kind == sqlite3.SQLITE_FULL:
            raise OSError(
                errno.ENOSPC, f"{name}: the disk is full.{kept} Make room, and {again}"
            ) from None
        raise OSError(
            errno.EIO,
            f"{name}: it cannot be written: {error}.{kept} Repair that, and {again}",
        ) from None


@contextmanager
def opened(
    folder: Path, given: Sweep, changed: Callable[[Database], str]
) -> Iterator[tuple[Database, int]]:
    """Open the database of a sweep, a new one or that of the same sweep, and yield it
    with the width of its chunks: a sweep that began on other hardware keeps its width.
    A finished one need not be writable. `changed(database)` says which data differ."""
    check_kind(folder)
    path = folder / NAME
    with ExitStack() as stack:
        can_be_read_only = path.exists() and not _is_writable(folder)
        if not can_be_read_only:
            stack.enter_context(locked(folder))
        if not path.exists():
            write_whole(path, _empty(given))
        database = stack.enter_context(closing(Database(path)))
        found = database.sweep()
        found.check_same(folder, given, lambda: changed(database))
        if can_be_read_only and len(database) < found.tasks:
            _make(folder)  # which says that it cannot be written
        yield database, found.width


def _empty(sweep: Sweep) -> bytes:
    """Return the content of a file without fits."""
    with closing(sqlite3.connect(":memory:")) as new:
        new.executescript(_SCHEMA)
        values = vars(sweep) | {"versions": json.dumps(sweep.versions)}
        new.execute("INSERT INTO sweep VALUES (?,?,?,?,?,?,?)", [*values.values()])
        new.commit()
        return new.serialize()


def check_kind(folder: Path) -> None:
    """Refuse a folder with links, or with files of an earlier version."""
    for path in (folder, *(folder / name for name in FILES)):
        if path.is_symlink():
            raise ResultError(
                f"{file_name(path)}: this is a symbolic link. Give the folder itself, "
                f"with its own files, {_CHOOSE}."
            )
    old = [name for name in _OLD if (folder / name).exists()]
    if old:
        raise ResultError(
            f"{file_name(folder)}: its {old[0]} was written by an earlier version of "
            "ddefind, which kept fits in another way. Go on with that version, "
            f"{_CHOOSE}."
        )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder if need be, and keep other sweeps out of it."""
    check_kind(folder)
    _make(folder)
    path = folder / LOCK
    with closing(_connected(path, "rwc", _PATIENCE_FOR_LOCK)) as lock:
        with _errors_as_sentences(path):
            try:
                lock.execute("PRAGMA journal_mode = OFF")
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
                raise ResultError(
                    f"{file_name(folder)}: another sweep is at work in this folder. "
                    "Wait for its end, or choose another folder."
                ) from None
        yield


def is_locked(folder: Path) -> bool:
    """Whether a process writes to the folder now."""
    try:
        with closing(_connected(folder / LOCK, "ro", 0.0)) as lock:
            lock.execute("SELECT * FROM sqlite_master").fetchall()
    except sqlite3.Error as error:
        return error.sqlite_errorcode == sqlite3.SQLITE_BUSY
    return False


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


@final
@dataclass(frozen=True)
class Overview:
    """How far a sweep is. `statuses` counts how its fits ended; `seconds_left` is None
    if it does not run or has fewer than two rows; `last` is the time of the last row,
    in seconds since 1970."""

    about: str
    tasks: int
    done: int = 0
    failed: int = 0
    runs: bool = False
    statuses: dict[str, int] = field(default_factory=dict)
    seconds_left: float | None = None
    last: float | None = None


def overview(folder: Path) -> Overview | None:
    """Return how far the sweep of a folder is, or None if there is none."""
    check_kind(folder)
    path = folder / NAME
    if not path.exists():
        return None
    with _errors_as_sentences(path), closing(_checked(path)) as connection:
        tasks, about = connection.execute("SELECT tasks, about FROM sweep").fetchone()
        rows = connection.execute("SELECT status, error, at FROM fits").fetchall()
    times = sorted(at for _, _, at in rows)[-_RECENT:]
    runs, left = is_locked(folder), None
    if runs and len(times) > 1 and times[-1] > times[0]:
        # Until now, since rows come in chunks: the chunks that run take time, too.
        speed = (len(times) - 1) / (max(time.time(), times[-1]) - times[0])
        left = (tasks - len(rows)) / speed
    return Overview(
        about,
        tasks,
        len(rows),
        sum(error is not None for _, error, _ in rows),
        runs,
        dict(Counter(status for status, _, _ in rows)),
        left,
        times[-1] if times else None,
    )
