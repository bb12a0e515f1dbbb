"""Data that a model makes: for tests of fits, and of gradients."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._data.data import Data
from .._data.read_csv import read_csv
from .._equation.equation import Equation
from .._loss.check_gradient import GradientCheck, compare_gradients
from .._problem.parameters import parameter_values
from .._problem.problem import Problem
from .._solve.solution import check_time, solve
from ..plots import observed
from .model_file import observed_names, problem_at, unknown

# Steps in a delay, for gradients: the adjoint equation's are as good as its steps.
_STEPS = 100
# Random values that are tried until one gives a finite solution.
_TRIES = 10
_MOST_POINTS, _MOST_STEPS = 1_000_000, 4_000_000
# A step a quarter as long moves the solution by less than this share of its spread;
# so many lengths are tried.
_PRECISION, _LENGTHS = 1e-6, 5


def simulated(
    problem: Problem,
    T: float,
    points: int,
    noise: float,
    seed: int,
    names: Sequence[str] | None = None,
) -> Data:
    """Noisy values of the problem's solution at even times; `noise` is the standard
    deviation of the noise over that of each quantity."""
    T = check_time(T)
    if not 2 <= points <= _MOST_POINTS:
        raise ValueError(
            f"`points` must be from 2 to {_MOST_POINTS:,}, but got {points}."
        )
    if not 0 <= noise < np.inf:
        raise ValueError(f"`noise` must be a number from 0 on, but got {noise}.")
    t = np.linspace(0, T, points)
    x, moved = _exact(problem, t)
    random = np.random.default_rng(seed)
    x = x + noise * np.std(x, axis=0) * random.normal(size=x.shape)
    notes = []
    if np.isinf(moved):
        notes = ["There are too many steps to see what shorter ones would change."]
    elif moved > _PRECISION:
        notes = [f"Shorter steps still moved the solution, by {moved:.1g} of its size."]
    return Data(t, x, names=names, notes=notes)


def _exact(problem: Problem, t: np.ndarray) -> tuple[np.ndarray, float]:
    """What is observed at some times, with steps as small as that needs, and how far it
    moved when they were shortened for the last time."""
    T, tau = float(t[-1]), float(problem.tau)
    n, x, moved = max(20, int(np.ceil(200 * tau / T))), None, np.inf
    for _ in range(_LENGTHS):
        if T / tau * n > _MOST_STEPS or moved < _PRECISION:
            break
        finer = observed(problem, solve(problem, T, steps_per_delay=n), t)
        if x is not None and np.all(np.isfinite(x + finer)):
            moved = float(np.max(np.abs(finer - x) / _scale(finer)))
        n, x = 4 * n, finer
    if x is None:
        raise ValueError(
            f"T = {T:g} is {T / tau:.2g} delays: too many to solve for. Choose a "
            "smaller T."
        )
    bad = np.flatnonzero(~np.all(np.isfinite(x), axis=1))
    if len(bad):
        raise ValueError(
            f"The solution is not finite from t = {t[bad[0]]:g} on, with "
            f"{_listed(problem)}. Choose other values, or a smaller T."
        )
    return x, moved


def _scale(x: np.ndarray) -> np.ndarray:
    """The spread of each quantity, or its size where it does not vary."""
    spread = np.ptp(x, axis=0)
    size = np.max(np.abs(x), axis=0)
    return np.where(spread > 1e-9 * size, spread, np.where(size > 0, size, 1.0))


def _listed(problem: Problem) -> str:
    found = list(parameter_values(problem).items())
    shown = ", ".join(f"{name} = {value:.4g}" for name, value in found[:12])
    return shown + (", ..." if len(found) > 12 else "")


def gradients_at(
    model: Equation | Problem, file: Path | None, given: Mapping[str, Any], seed: int
) -> GradientCheck:
    """The gradients of a model at given values, random ones where none are given; with
    the data of a file, or with its own, 10% off."""
    random = np.random.default_rng(seed)
    problem = problem_at(model, given, _random(model, given, random))
    if file is not None:
        data = read_csv(file)
        names = observed_names(model)
        data = data if names is None else data.select(names)
        return compare_gradients(problem, data, steps_per_delay=_STEPS)
    for _ in range(_TRIES):
        try:
            data = _beside(problem, random)
            return compare_gradients(problem, data, steps_per_delay=_STEPS)
        except ValueError as error:
            if not unknown(model, given):
                raise
            message = str(error)
            problem = problem_at(model, given, _random(model, given, random))
    raise ValueError(f"{message} Give values by `--set`.")


def _beside(problem: Problem, random: np.random.Generator) -> Data:
    """Data that are somewhat off the solution, so that there is a gradient."""
    # No time on a node: there the second derivative for the delay jumps.
    t = np.linspace(0, 5.37 * float(problem.tau), 29)
    x = observed(problem, solve(problem, float(t[-1])), t)
    if not np.all(np.isfinite(x)):
        raise ValueError(f"The solution is not finite, with {_listed(problem)}.")
    return Data(t, x + 0.1 * _scale(x) * random.normal(size=x.shape))


def _random(
    model: Equation | Problem, given: Mapping[str, Any], random: np.random.Generator
) -> dict[str, float]:
    return {name: random.uniform(0.5, 1.5) for name in unknown(model, given)}
