"""Reporting the progress of a long fit: to a callback, or as a bar on a terminal."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

# The phase of a fit in which the ends of the intervals are sought.
INTERVALS = "intervals"
# Messages are shown if the work has taken longer than this.
_SECONDS_BEFORE_MESSAGES = 2.0


@final
@dataclass(frozen=True)
class Progress:
    """What a progress callback receives.

    - `phase`: the part of the work that runs, `"epochs"` for gradient descent.
    - `epoch`, `epochs`: how many steps of the work are done, and how many there are:
      epochs of gradient descent, phases of a search or, in the phase `"intervals"`, the
      ends of intervals, whose number grows where the search for them leads to others.
    - `fits_done`, `fits`: how many fits have ended, and how many there are.
    - `loss`, `tau`: the lowest loss so far, and the delay of that fit.
    - `seconds_left`: an estimate of the remaining time.
    - `message`: what takes long and what would help, if there is something to say."""

    phase: str
    epoch: int
    epochs: int
    fits_done: int
    fits: int
    loss: float
    tau: float
    seconds_left: float
    message: str = ""


@final
class Reporter:
    """Passes progress on to the user's callback, or moves a bar on a terminal.

    `progress` is a callback, True for a bar, False for neither, or None for a bar if
    the standard error is a terminal. It is used as a context manager. Work of fewer
    seconds than `patience` gets no bar; the bar of longer work goes when it is done."""

    def __init__(
        self,
        progress: bool | Callable[[Progress], None] | None,
        epochs: int,
        fits: int,
        patience: float = 0.0,
    ):
        if progress is None:
            progress = sys.stderr is not None and sys.stderr.isatty()
        self.callback = progress if callable(progress) else None
        self.epochs, self.fits = epochs, fits
        self.bar: Any = _bar(patience > 0) if progress is True else None
        self.patience, self.has_begun = patience, False
        self.phase, self.began = "", time.perf_counter()
        self.messages: set[str] = set()

    def __enter__(self) -> "Reporter":
        if self.bar is not None:
            self.task = self.bar.add_task(
                "", total=max(self.epochs, 1), phase="compiling", loss="-", tau="-"
            )
            if not self.patience:
                self._begin()
        return self

    def _begin(self) -> None:
        self.has_begun = True
        self.bar.start()

    def __exit__(self, *_: object) -> None:
        if self.has_begun:
            self.bar.stop()

    def update(self, state: Any, tau: np.ndarray) -> None:
        """Report the progress of gradient descent: the epoch of the slowest fit.
        `state` and `tau` hold one column for each fit."""
        running = state.status == 0
        epoch = int(state.epoch[running].min()) if running.any() else self.epochs
        lowest = int(np.argmin(state.best_loss))
        done = int((~running).sum())
        self.show("epochs", epoch, done, state.best_loss[lowest], float(tau[lowest]))

    def show_ends(self, found: int, sought: int, loss: float, tau: float) -> None:
        """Report how many ends of intervals are found, of those that are sought. They
        have a bar of their own, and the time left is counted anew."""
        if self.phase != INTERVALS:
            self.phase, self.began = INTERVALS, time.perf_counter()
            if self.bar is not None:
                fields = _shown(INTERVALS, loss, tau)
                self.bar.reset(self.task, total=sought, **fields)
        self.epochs = sought
        self.show(INTERVALS, found, 0, loss, tau)

    def show(
        self,
        phase: str,
        epoch: int,
        done: int,
        loss: float,
        tau: float,
        message: str = "",
    ) -> None:
        """Report that `epoch` steps and `done` fits are done, with the lowest loss. A
        message is shown once, if the work has taken some time."""
        passed = time.perf_counter() - self.began
        left = passed * (self.epochs - epoch) / max(epoch, 1)
        is_new = message not in self.messages and passed > _SECONDS_BEFORE_MESSAGES
        self.messages |= {message} if is_new else set()
        now = Progress(
            phase,
            epoch,
            self.epochs,
            done,
            self.fits,
            float(loss),
            float(tau),
            left,
            message if is_new else "",
        )
        if self.callback is not None:
            self.callback(now)
        if self.bar is not None:
            if not self.has_begun and passed > self.patience:
                self._begin()
            if now.message:
                self.bar.console.print(now.message, highlight=False, markup=False)
            fields = _shown(phase, loss, tau)
            total = max(self.epochs, 1)
            self.bar.update(self.task, completed=epoch, total=total, **fields)


def _shown(phase: str, loss: float, tau: float) -> dict[str, str]:
    """Return what a bar shows beside the steps and the time."""
    delay = "-" if np.isnan(tau) else f"{tau:.4g}"
    return {"phase": phase, "loss": f"{loss:.4g}", "tau": delay}


def _bar(is_transient: bool) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress as Bar,
        TextColumn,
        TimeRemainingColumn,
    )

    return Bar(
        TextColumn("{task.fields[phase]}"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("loss {task.fields[loss]}  tau {task.fields[tau]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=is_transient,
    )
