"""torchdde on the same problem: Mackey-Glass with all of F unknown, noise of 0.1."""

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import ddefind as dd

from . import _baselines
from ._report import Row

TITLE = "torchdde, Mackey-Glass, F unknown; figure: thousandths of torchdde's time"
IS_LONG = True
# How long torchdde may take, and which multiple of our residuals it has to reach.
_SECONDS, _NEAR = float(os.environ.get("BASELINE_SECONDS", "600")), 1.1


def rows() -> Iterator[Row]:
    truth = dd.equation("x' = 2 * x(t - tau) / (1 + x(t - tau)^8) - x")
    t = np.linspace(0.0, 30.0, 150)
    exact = np.asarray(dd.solve(truth.problem(tau=2.0, b=0.5), 30.0)(t))
    x = (exact - exact.mean()) / exact.std()
    x = x + 0.1 * np.random.default_rng(0).normal(size=x.shape)
    data, problem = dd.Data(t, x), dd.Problem(dd.Network(), dd.Constant(0.0), tau=1.0)
    for what in ("with compilation", "again"):
        start = time.perf_counter()
        fit: Any = dd.fit(problem, data, intervals=False, progress=False)
        seconds = time.perf_counter() - start
        residual = float(np.sqrt(np.mean((fit.fitted - x) ** 2)))
        note = f"residuals {residual:.3f}, tau {fit.values['tau']:.3f}"
        yield Row(f"ours, {what}", f"{seconds:.3g} s", note=note)
    arrays = {"t": t, "x": x, "tau": 1.0}
    theirs = _baselines.run("run_torchdde.py", arrays, _SECONDS, _NEAR * residual, 0)
    if theirs is None:
        yield Row("torchdde", "", note=_baselines.INSTALL)
        return
    note = (
        f"residuals {theirs['residual']:.3f}, tau {theirs['tau']:.3f}, "
        f"{theirs['epochs']} epochs"
    )
    figure = 1000 * seconds / theirs["seconds"]
    yield Row("torchdde", f"{theirs['seconds']:.3g} s", figure, 10, note)
