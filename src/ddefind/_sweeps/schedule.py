"""Numbered tasks in chunks, handed to workers, whose results are kept.

A worker gets one chunk at a time. Chunks depend on the numbers alone, not on what is
done already or on the number of workers, so that a task always runs beside the same
others. Results are then the same to the last bit, whatever was interrupted.

The error of a task is in its record. An error of a future therefore means that its
worker died or was lost: the chunk is handed out again, a few times. If it never
returns, its tasks run one by one, and those that never return are recorded without a
result."""

import json
import math
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import suppress
from typing import Any, NamedTuple, final

from .._util.errors import ResultError
from .._util.progress import Reporter
from .database import Database, Row
from .executors import CannotLoad, CannotStart, LocalProcesses

# A chunk is handed out at most this many times.
_MOST_ATTEMPTS = 3
# At most this many chunks are handed out at a time: a million would need much memory.
_MOST_OUT = 512
# The most seconds between two reports.
_SECONDS = 0.5
# If this many fits end, all with an error, the mistake is in the call, not in the data.
_MOST_ERRORS = 50


@final
class Chunk(NamedTuple):
    """Tasks that run together. The results of some of them are wanted."""

    numbers: tuple[int, ...]
    wanted: frozenset[int]


def chunks_of(
    tasks: int, width: int, recorded: Collection[int], again: Collection[int] = ()
) -> list[Chunk]:
    """Cut the tasks 0 ... `tasks` - 1 into chunks, and return the chunks still to run.

    Tasks that are `recorded` are not wanted. A chunk of which only some are recorded
    runs as a whole. The tasks `again` are recorded, but run once more, each alone.

    >>> for chunk in chunks_of(6, 2, recorded={0, 1, 2}, again={1}):
    ...     print(chunk.numbers, sorted(chunk.wanted))
    (2, 3) [3]
    (4, 5) [4, 5]
    (1,) [1]
    """
    chunks = []
    for first in range(0, tasks, width):
        numbers = tuple(range(first, min(first + width, tasks)))
        wanted = frozenset(numbers).difference(recorded)
        if wanted:
            chunks.append(Chunk(numbers, wanted))
    return chunks + [_alone(number) for number in sorted(again)]


def _alone(number: int) -> Chunk:
    """Return a chunk of one task."""
    return Chunk((number,), frozenset({number}))


@final
class Schedule:
    """The chunks of a sweep that wait, and those that are handed out; and their rows,
    which are written as they come, beside a report on how many there are.

    `submit(chunk, attempt)` hands a chunk out, and `failed(number, why)` makes the row
    of a task whose worker ended again and again. Until a fit has been made, fits that
    ended with an error are not written: if none is ever made, the call is wrong, and
    nothing is recorded."""

    def __init__(
        self,
        chunks: Iterable[Chunk],
        submit: Callable[[Chunk, int], Future],
        failed: Callable[[int, str], Row],
        database: Database,
        reporter: Reporter,
    ):
        self.waiting = deque(chunks)
        self.submit, self.failed = submit, failed
        self.database, self.reporter = database, reporter
        self.out: dict[Future, Chunk] = {}
        self.attempts: Counter[Chunk] = Counter()
        self.has_fits = len(database) > len(database.errors)
        self.rows: list[Row] = []
        self.ended, self.lowest, self.tau = 0, math.inf, math.nan

    def run(self, *, finish: bool) -> bool:
        """Run all chunks, and return whether this was not interrupted by Ctrl-C.

        After Ctrl-C no further chunk is handed out. With `finish` it waits for those
        that run, until Ctrl-C comes again: nothing else could end them."""
        is_finished = False
        try:
            while self.waiting or self.out:
                self._hand_out()
                self._collect()
            is_finished = True
        except KeyboardInterrupt:
            self.waiting.clear()
            self._cancel()
            with suppress(KeyboardInterrupt):
                while finish and self.out:
                    self._collect()
                    self.waiting.clear()
        except BaseException:
            self._cancel()
            raise
        finally:
            self._write()  # what came with Ctrl-C, or with an error
        self._check_fits()
        return is_finished

    def _hand_out(self) -> None:
        """Submit waiting chunks."""
        while self.waiting and len(self.out) < _MOST_OUT:
            chunk = self.waiting.popleft()
            self.attempts[chunk] += 1
            self.out[self.submit(chunk, self.attempts[chunk])] = chunk

    def _collect(self) -> None:
        """Write what has ended, and show how far the sweep is."""
        done, _ = wait(self.out, timeout=_SECONDS, return_when=FIRST_COMPLETED)
        for future in done:
            chunk = self.out.pop(future)
            try:
                rows = future.result()
            except (CannotLoad, CannotStart) as error:
                raise ResultError(str(error)) from None
            except ImportError as error:
                raise ResultError(
                    f"A worker cannot import what it needs: {error}. Install the same "
                    "ddefind there as here."
                ) from None
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self._again(chunk, error)
            else:
                for row in rows:
                    if row.number in chunk.wanted:
                        self._keep(row)
        self._write()
        if len(self.rows) >= _MOST_ERRORS:
            self._check_fits()
        if self.ended:
            done = len(self.database)
            self.reporter.show("fits", self.ended, done, self.lowest, self.tau)

    def _again(self, chunk: Chunk, error: BaseException) -> None:
        """Hand the chunk of a lost worker out again, or its tasks one by one."""
        if self.attempts[chunk] < _MOST_ATTEMPTS:
            self.waiting.appendleft(chunk)
        elif len(chunk.numbers) > 1:
            self.waiting.extendleft(_alone(n) for n in sorted(chunk.wanted))
        else:
            reason = " ".join(str(error).split()) or type(error).__name__
            why = f"Its worker ended {_MOST_ATTEMPTS} times while it ran ({reason})."
            for number in chunk.wanted:
                self._keep(self.failed(number, why))

    def _keep(self, row: Row) -> None:
        self.ended += 1
        self.rows.append(row)
        if row.error is None:
            self.has_fits = True
            record = json.loads(row.record)
            if float(record["loss"]) < self.lowest:
                self.lowest = float(record["loss"])
                self.tau = float(record["estimates"].get("tau", math.nan))

    def _write(self) -> None:
        """Write the rows that wait. None waits any longer, even if that fails."""
        if self.has_fits:
            rows, self.rows = self.rows, []
            self.database.write(rows)

    def _check_fits(self) -> None:
        """Refuse a sweep of which no fit was made."""
        if self.rows:
            row = min(self.rows)
            raise ResultError(
                "No fit could be made, and nothing was recorded. Fit "
                f"{row.number}: {row.error}"
            )

    def _cancel(self) -> None:
        """Take back the chunks that do not run yet."""
        for future in list(self.out):
            if future.cancel():
                del self.out[future]


def submitted(executor: Any, function: Callable[..., Any], *arguments: Any) -> Future:
    """Hand a task to an executor, or say why that takes none."""
    try:
        return executor.submit(function, *arguments)
    except BrokenExecutor as error:
        if isinstance(executor, LocalProcesses):
            raise
        raise ResultError(
            f"The executor is broken ({error}): one of its processes was ended, and a "
            "pool of Python then ends the others. Call again with a new one; "
            "`executor=4` makes four processes that are replaced when they end."
        ) from None
    except Exception as error:
        # The class of this error depends on the library of the executor.
        raise ResultError(
            f"`executor` takes no tasks: {' '.join(str(error).split())} Give one that "
            "is open and works."
        ) from error
