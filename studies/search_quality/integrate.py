"""An integrator that is not ours: Python's own reading of the text of a model, solved
by the classical Runge-Kutta method on a fixed grid.

The past between two points of the grid is a cubic Hermite polynomial. The text of a
model is rewritten as Python code, without any use of `dd.equation`."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np

# A trajectory that leaves this range has diverged.
_LARGEST = 1e12
# The least number of steps in the shortest delay, and in the record.
_STEPS_PER_DELAY, _STEPS_PER_RECORD = 20, 2000
_EQUATION = re.compile(r"\s*(\w+)'\s*=(.*)")
_DELAYED = re.compile(r"(\w+)\(t - (\w+)\)")
_FUNCTIONS = {"exp": math.exp, "tanh": math.tanh, "log": math.log}


@final
@dataclass(frozen=True)
class Program:
    """A model as Python code.

    `make_slope(values)` is a function `slope(state, past)`, the derivatives; `past` has
    one number for each of `delayed`, the pairs of a state's index and the name of a
    delay."""

    states: tuple[str, ...]
    delayed: tuple[tuple[int, str], ...]
    make_slope: Callable[[Mapping[str, float]], Callable[..., tuple[float, ...]]]


@lru_cache(maxsize=64)
def read_model(text: str) -> Program:
    """The program of equations `x' = ...` that are separated by semicolons, with delays
    written as `x(t - tau)`."""
    found = [_EQUATION.fullmatch(line) for line in text.split(";")]
    pairs = [match.groups() for match in found if match is not None]
    states = tuple(name for name, _ in pairs)
    delayed: list[tuple[int, str]] = []

    def past(match: re.Match) -> str:
        key = states.index(match[1]), match[2]
        if key not in delayed:
            delayed.append(key)
        return f"_past[{delayed.index(key)}]"

    right = ", ".join(_DELAYED.sub(past, formula) for _, formula in pairs)
    names = set(re.findall(r"\b[A-Za-z]\w*", right)) - {*states, *_FUNCTIONS}
    parameters = "".join(f"    {name} = _values['{name}']\n" for name in sorted(names))
    code = (
        f"def make(_values):\n{parameters}"
        f"    def slope(_state, _past):\n"
        f"        ({', '.join(states)},) = _state\n"
        f"        return ({right.replace('^', '**')},)\n"
        f"    return slope\n"
    )
    space: dict[str, Any] = dict(_FUNCTIONS)
    exec(code, space)
    return Program(states, tuple(delayed), space["make"])


def history_names(program: Program) -> list[str]:
    """The names of the constant history: `b`, or `b[0]`, `b[1]` and so on."""
    count = len(program.states)
    return ["b"] if count == 1 else [f"b[{i}]" for i in range(count)]


def integrate(
    text: str, values: Mapping[str, float], times: np.ndarray, finer: int = 1
) -> np.ndarray | None:
    """The states at `times`, from the constant history at time 0, of shape
    (times, states); None if the trajectory diverges. Steps are `finer` times shorter
    than usual."""
    program = read_model(text)
    slope = program.make_slope(values)
    start = tuple(values[name] for name in history_names(program))
    end = float(times[-1])
    lags = {name: values[name] for _, name in program.delayed}
    shortest = min([*lags.values(), end])
    per_delay = math.ceil(
        finer * max(_STEPS_PER_DELAY, _STEPS_PER_RECORD * shortest / end)
    )
    # The shortest delay is a multiple of the step: its breaking points are on the grid.
    h = shortest / per_delay
    count = math.ceil(end / h) + 1
    reads = [(i, lags[name] / h) for i, name in program.delayed]
    xs, slopes = [start], []

    def past(step: int, half: int) -> list[float]:
        """The delayed states at `step` plus `half` half steps."""
        found = []
        for i, lag in reads:
            place = step + 0.5 * half - lag
            j = math.floor(place + 1e-9)
            u = place - j
            if place <= 1e-9:
                found.append(start[i])
            elif u < 1e-7:
                found.append(xs[j][i])
            else:
                a, b, c, d = xs[j][i], xs[j + 1][i], slopes[j][i], slopes[j + 1][i]
                rise, c, d = b - a, h * c, h * d
                found.append(
                    a + u * (c + u * (3 * rise - 2 * c - d + u * (c + d - 2 * rise)))
                )
        return found

    try:
        x, before = start, past(0, 0)
        for step in range(count):
            middle, after = past(step, 1), past(step, 2)
            k1 = slope(x, before)
            slopes.append(k1)
            k2 = slope([a + 0.5 * h * k for a, k in zip(x, k1)], middle)
            k3 = slope([a + 0.5 * h * k for a, k in zip(x, k2)], middle)
            k4 = slope([a + h * k for a, k in zip(x, k3)], after)
            x = tuple(
                a + h / 6 * (p + 2 * q + 2 * r + s)
                for a, p, q, r, s in zip(x, k1, k2, k3, k4)
            )
            if not all(abs(a) < _LARGEST for a in x):
                return None
            xs.append(x)
            before = after
        slopes.append(slope(x, before))
    except (ArithmeticError, ValueError, TypeError):
        return None
    path = np.array(xs)
    # A power of a negative number is complex.
    if np.iscomplexobj(path):
        return None
    return _interpolate(path, np.array(slopes), h, np.asarray(times))


def _interpolate(
    xs: np.ndarray, slopes: np.ndarray, h: float, times: np.ndarray
) -> np.ndarray:
    """The cubic Hermite polynomials between the points of the grid."""
    j = np.minimum((times / h).astype(int), len(xs) - 2)
    u = (times / h - j)[:, None]
    a, b, c, d = xs[j], xs[j + 1], h * slopes[j], h * slopes[j + 1]
    return a + u * (c + u * (3 * (b - a) - 2 * c - d + u * (c + d - 2 * (b - a))))
