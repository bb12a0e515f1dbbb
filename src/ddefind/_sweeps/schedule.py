"""Handing chunks to workers, and keeping what they return.

Whatever a task itself does wrong is in its record. An error of a future therefore
comes from its worker, which died or was lost: the chunk is handed out again, a few
times. If it never returns, its tasks run one by one, and those of them that never
return are recorded without a result."""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from typing import Any, final

from .._util.errors import ResultError
from .chunks import Chunk, alone
from .local_processes import CannotStart, LocalProcesses
from .packing import CannotLoad

# How often a chunk is handed out.
_MOST_ATTEMPTS = 3
# How many chunks are handed out at a time, so that a million of them need no memory.
_MOST_OUT = 512
# So often something happens while nothing ends: what was written is put on the disk.
_SECONDS = 0.5

# `submit(chunk, attempt)` hands a chunk out; `keep(chunk, bodies)` gets its records;
# `lose(number, why)` is told of a task that has none; `tick()` is called now and then.
Submit = Callable[[Chunk, int], Future]
Keep = Callable[[Chunk, list[bytes]], None]
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
                bodies = future.result()
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
                self.keep(chunk, bodies)
        self.tick()

    def _again(self, chunk: Chunk, error: BaseException) -> None:
        """A worker was lost: hand its chunk out again, or its tasks one by one."""
        if self.attempts[chunk] < _MOST_ATTEMPTS:
            self.waiting.appendleft(chunk)
        elif len(chunk.numbers) > 1:
            self.waiting.extendleft(alone(n) for n in sorted(chunk.wanted))
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
