"""Telling the user how far a long fit has come."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np


@final
@dataclass(frozen=True)
class Progress:
    """What a progress function is told: the phase of the work (`"epochs"` for gradient
    descent), how far it is, how many fits are done, and the lowest loss with its
    delay."""

    phase: str
    epoch: int
    epochs: int
    fits_done: int
    fits: int
    loss: float
    tau: float
    seconds_left: float


@final
class Reporter:
    """Calls a function of the user's, or moves a bar on a terminal."""

    def __init__(
        self,
        progress: bool | Callable[[Progress], None] | None,
        epochs: int,
        fits: int,
    ):
        if progress is None:
            progress = sys.stderr.isatty()
        self.callback = progress if callable(progress) else None
        self.epochs, self.fits = epochs, fits
        self.bar: Any = _bar() if progress is True else None
        self.began = time.perf_counter()

    def __enter__(self) -> "Reporter":
        if self.bar is not None:
            self.bar.start()
            self.task = self.bar.add_task(
                "", total=max(self.epochs, 1), phase="compiling", loss="-", tau="-"
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def update(self, state: Any, tau: np.ndarray) -> None:
        """Of a descent: where the slowest of its fits is."""
        running = state.status == 0
        epoch = int(state.epoch[running].min()) if running.any() else self.epochs
        lowest = int(np.argmin(state.best_loss))
        done = int((~running).sum())
        self.show("epochs", epoch, done, state.best_loss[lowest], float(tau[lowest]))

    def show(self, phase: str, epoch: int, done: int, loss: float, tau: float) -> None:
        passed = time.perf_counter() - self.began
        left = passed * (self.epochs - epoch) / max(epoch, 1)
        now = Progress(
            phase, epoch, self.epochs, done, self.fits, float(loss), float(tau), left
        )
        if self.callback is not None:
            self.callback(now)
        if self.bar is not None:
            shown = {"phase": phase, "loss": f"{loss:.4g}", "tau": f"{tau:.4g}"}
            self.bar.update(self.task, completed=epoch, **shown)


def _bar() -> Any:
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
    )
