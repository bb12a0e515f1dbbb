"""Numbered tasks in chunks, handed to workers, whose results are kept.

A chunk is what a worker gets at a time. Chunks depend on the numbers alone, not on what
is done already or on how many workers there are, so that a task always runs beside the
same others. Results are then the same to the last bit, whatever was interrupted.

Whatever a task itself does wrong is in its record. An error of a future therefore
comes from its worker, which died or was lost: the chunk is handed out again, a few
times. If it never returns, its tasks run one by one, and those of them that never
return are recorded without a result."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from typing import Any, NamedTuple, final

from .._util.errors import ResultError
from .database import Row
from .executors import CannotLoad, CannotStart, LocalProcesses

# How often a chunk is handed out.
_MOST_ATTEMPTS = 3
# How many chunks are handed out at a time, so that a million of them need no memory.
_MOST_OUT = 512
# How many seconds pass at most until `tick` is called.
_SECONDS = 0.5


@final
class Chunk(NamedTuple):
    """The tasks that run together, and those of them whose results are wanted."""

    numbers: tuple[int, ...]
    wanted: frozenset[int]


def chunks_of(
    tasks: int, width: int, recorded: Collection[int], again: Collection[int] = ()
) -> list[Chunk]:
    """Cut the tasks 0 ... `tasks` - 1 into chunks, and return those still to be run.

    Those `recorded` are not wanted. If these are only a part of a chunk, the chunk runs
    as a whole. The tasks `again` are recorded, but run once more, each alone.

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


# `submit(chunk, attempt)` hands a chunk out; `keep(chunk, rows)` gets its results;
# `lose(number, why)` gets a task that has none; `tick()` is called after each portion
# of results, and now and then.
Submit = Callable[[Chunk, int], Future]
Keep = Callable[[Chunk, list[Row]], None]
Lose = Callable[[int, str], None]


@final
class Schedule:
    """The chunks of a sweep: those that wait, and those that are out."""

    def __init__(
        self,
        chunks: Iterable[Chunk],
        submit: Submit,
        keep: Keep,
        lose: Lose,
        tick: Callable[[], None],
    ):
        self.waiting = deque(chunks)
        self.submit, self.keep, self.lose, self.tick = submit, keep, lose, tick
        self.out: dict[Future, Chunk] = {}
        self.attempts: Counter[Chunk] = Counter()

    def run(self, *, finish: bool) -> bool:
        """Run all chunks; False if Ctrl-C came before the end.

        After Ctrl-C no further chunk is handed out. With `finish` those that run are
        waited for, until Ctrl-C comes again: nothing else could end them."""
        try:
            while self.waiting or self.out:
                self._hand_out()
                self._collect()
        except KeyboardInterrupt:
            self.waiting.clear()
            self._cancel()
            if finish:
                self._finish()
            return False
        except BaseException:
            self._cancel()
            raise
        return True

    def _hand_out(self) -> None:
        while self.waiting and len(self.out) < _MOST_OUT:
            chunk = self.waiting.popleft()
            self.attempts[chunk] += 1
            self.out[self.submit(chunk, self.attempts[chunk])] = chunk

    def _collect(self) -> None:
        """Keep what has ended."""
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
                self.keep(chunk, rows)
        self.tick()

    def _again(self, chunk: Chunk, error: BaseException) -> None:
        """A worker was lost: hand its chunk out again, or its tasks one by one."""
        if self.attempts[chunk] < _MOST_ATTEMPTS:
            self.waiting.appendleft(chunk)
        elif len(chunk.numbers) > 1:
            self.waiting.extendleft(_alone(n) for n in sorted(chunk.wanted))
        else:
            for number in chunk.wanted:
                self.lose(number, _why(error))

    def _cancel(self) -> None:
        """Take back what does not run yet."""
        for future in list(self.out):
            if future.cancel():
                del self.out[future]

    def _finish(self) -> None:
        try:
            while self.out:
                self._collect()
                self.waiting.clear()
        except KeyboardInterrupt:
            pass


def _why(error: BaseException) -> str:
    """Why a task has no result, after several workers were lost with it."""
    said = " ".join(str(error).split()) or type(error).__name__
    return f"Its worker ended {_MOST_ATTEMPTS} times while it ran ({said})."


def submitted(executor: Any, function: Callable[..., Any], *arguments: Any) -> Future:
    """Hand a task to an executor. One that is broken takes none."""
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
        # Which one it is depends on the library of the executor.
        raise ResultError(
            f"`executor` takes no tasks: {' '.join(str(error).split())} Give one that "
            "is open and works."
        ) from error
