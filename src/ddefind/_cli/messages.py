"""What all commands share: exit codes, messages, and how they start and end.

Results go to the standard output, all other messages to the standard error. Commands
start quickly, with a cache of compiled programs on disk, and end quietly if they are
interrupted while they start."""

import gc
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer

from .._util.files import nonfinite_as_none
from .._util.jax_settings import set_up_cache
from .._util.wording import command_line_words

# `PIPE_CLOSED` is what shells report of a program that was ended by writing to a closed
# pipe.
REFUSED, DOUBTFUL, INTERRUPTED, PIPE_CLOSED = 2, 3, 130, 141
EXIT_CODES = (
    "Exit codes: 0 done; 1 failure; 2 input refused; 3 done but doubtful (a fit that "
    "did not converge or whose model is rejected, a gradient that is wrong); 130 "
    "interrupted; 141 the reader of the output closed it, as head does."
)


@contextmanager
def quick_start() -> Iterator[None]:
    """Set up the cache, load JAX, and switch garbage collection off while the context
    lasts: it would take time and find hardly anything. This context must be entered
    before JAX is loaded."""
    set_up_cache()
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
    """Let Ctrl-C end the process at once, with one line, while modules are loaded: an
    exception would end some of them, such as JAX, with their own traceback."""
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_usual or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        with suppress(OSError):
            os.write(2, b"Interrupted.\n")
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def say(text: str, quiet: bool = False) -> None:
    """Print to the standard error what a command is doing, unless it is `quiet`."""
    if not quiet:
        typer.echo(text, err=True)


@contextmanager
def errors_as_messages() -> Iterator[None]:
    """End the command with a message instead of a traceback if its input is refused or
    the user interrupts it. Sentences are in the words of the command line."""
    try:
        with command_line_words():
            yield
        return
    except BrokenPipeError:
        raise  # `main` ends the command silently.
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        message = f"{where}{error.strerror or error}."
    except (TypeError, ValueError) as error:
        message = str(error)
    except KeyboardInterrupt:
        say("Interrupted.")
        raise typer.Exit(INTERRUPTED) from None
    say(f"Error: {message}")
    raise typer.Exit(REFUSED)


def print_json(value: Any) -> None:
    """Print a value as strict JSON, with null for numbers that are not finite."""
    typer.echo(json.dumps(nonfinite_as_none(value), indent=2, ensure_ascii=False))
