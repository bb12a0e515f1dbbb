"""Count the files of the package through which one use of it passes.

    python -m tests.support.passed_files fit

prints the files in which a function ran. Everything is used once before, so that what
runs when a file is loaded does not count. (Python's hook for profilers sees each call
of a function, also in the threads that a fit starts.)"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import ddefind as dd

from .fits import simulated

EQUATION = "x' = r * x * (1 - x(t - tau) / K)"
_HOME = str(Path(str(dd.__file__)).parent)


def _write_table(folder: Path) -> Path:
    """Write a record of a delayed population as a CSV file."""
    truth = dd.equation(EQUATION).problem(r=1.8, K=2.5, tau=0.8, b=0.5)
    t = np.linspace(0, 20, 60)
    path = folder / "data.csv"
    simulated(truth, t, 0.05).to_csv(path)
    return path


def _read_csv(folder: Path) -> Callable[[], object]:
    path = _write_table(folder)
    return lambda: dd.read_csv(path)


def _fit(folder: Path) -> Callable[[], object]:
    data, model = dd.read_csv(_write_table(folder)), dd.equation(EQUATION)
    return lambda: print(dd.fit(model, data))


def _fit_command(folder: Path) -> Callable[[], object]:
    from ddefind._cli.main import main

    path, numbers = _write_table(folder), iter(range(9))

    def run() -> None:
        out = str(folder / f"result{next(numbers)}")
        try:
            main(["fit", str(path), "-e", EQUATION, "--out", out])
        except SystemExit as ended:
            assert not ended.code, "the command failed"

    return run


USES = {"read_csv": _read_csv, "fit": _fit, "fit --out": _fit_command}


def passed_files(use: str) -> list[str]:
    """Run one of `USES` twice, and return the files that the second time passes."""
    found = set()

    def note(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(_HOME):
            found.add(name[len(_HOME) + 1 :])

    with TemporaryDirectory() as folder:
        run = USES[use](Path(folder))
        run()
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            run()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return sorted(found)


if __name__ == "__main__":
    print("\n".join(passed_files(" ".join(sys.argv[1:]))))
