"""Random problems that are driven from outside: by inputs, read at once and through
delays, and by doses whose times and amounts are parameters.

A `Structure` is what a program is compiled for; `random_problem` fills it with values.
`reference` solves such a problem by scipy, from jump to jump.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.integrate import solve_ivp
from scipy.interpolate import PchipInterpolator

import ddefind as dd

T = 8.0
_KNOTS = 9


@final
@dataclass(frozen=True)
class Structure:
    """The kinds of the inputs u (read through `lag`), v (read at t) and w (read through
    `tau`), which doses there are, and whether x(0) differs from the history."""

    kinds: tuple[str, str, str] = ("linear", "steps", "cubic")
    bolus: bool = True
    infusion: bool = True
    sets: int = 1
    jump: bool = False

    @property
    def model(self) -> Any:
        text = (
            "x' = -k * x - c * tanh(y(t - tau)) + a * u(t - lag) + v;"
            "y' = k * x(t - tau) - c * y + 0.3 * w(t - tau) * x"
        )
        text += "; x(0) = start + v" if self.jump else ""
        return dd.equation(text, inputs=("u", "v", "w"), observe="x; y; s = x + v * y")


@final
@dataclass(frozen=True)
class Driven:
    """A problem, and what it is made of, for the reference."""

    problem: dd.Problem
    values: dict[str, float]
    tables: dict[str, tuple[np.ndarray, np.ndarray, str]]
    doses: list[Any]
    jump: bool


def random_problem(structure: Structure, seed: int) -> Driven:
    """Tables and values that are drawn at random."""
    random = np.random.default_rng(seed)
    tables = {}
    for name, kind in zip("uvw", structure.kinds):
        inner = np.sort(random.uniform(-3.0, T + 1, _KNOTS - 2))
        t = np.concatenate([[-4.0], inner, [T + 2.0]])
        tables[name] = t, random.normal(size=_KNOTS), kind
    doses: list[Any] = []
    if structure.bolus:
        doses.append(dd.Dose("x", "amount", "when", every=2.3, count=3))
        doses.append(dd.Dose("y", random.normal(), random.uniform(0, T)))
    if structure.infusion:
        begin = random.uniform(0.5, 2.0)
        doses.append(dd.Dose("y", 1.5, begin, duration="long", every=3.1, count=2))
    for n in range(structure.sets):
        doses.append(dd.SetState("y", f"level_{n}", random.uniform(1, T - 1)))
    model = structure.model.with_doses(doses)
    values = {name: random.uniform(0.3, 1.0) for name in model.names}
    values |= {"tau": random.uniform(0.6, 2.4), "lag": random.uniform(0.4, 3.0)}
    values |= {"when": random.uniform(0.2, 2.0)} if structure.bolus else {}
    inputs = {name: dd.Input(*table) for name, table in tables.items()}
    problem = model.problem(values, inputs=inputs)
    return Driven(problem, values, tables, doses, structure.jump)


def _function(t: np.ndarray, x: np.ndarray, kind: str) -> Callable[[float], float]:
    if kind == "cubic":
        return PchipInterpolator(t, x)
    if kind == "linear":
        return lambda s: np.interp(s, t, x)
    return lambda s: x[np.searchsorted(t, s, side="right") - 1]


def reference(driven: Driven, tolerance: float = 1e-12):
    """The solution as a function of a vector of times: at a dose that before it."""
    p, d = driven.values, driven.doses
    tau, lag = p["tau"], p["lag"]
    u, v, w = (_function(*driven.tables[name]) for name in "uvw")

    def number(value):
        return p[value] if isinstance(value, str) else float(value)

    events, rates = [], []
    for dose in d:
        i = "xy".index(dose.state)
        if isinstance(dose, dd.SetState):
            events.append((number(dose.time), i, "set", number(dose.value)))
            continue
        for n in range(dose.count):
            begin = number(dose.time) + n * (dose.every or 0.0)
            if dose.duration is None:
                events.append((begin, i, "add", number(dose.amount)))
            else:
                length = number(dose.duration)
                rates.append((begin, begin + length, i, number(dose.amount) / length))
    origins = {0.0, *(event[0] for event in events)}
    origins |= {end for rate in rates for end in rate[:2]}
    origins |= {t + lag for t in driven.tables["u"][0]} | set(driven.tables["v"][0])
    origins |= {t + tau for t in driven.tables["w"][0]}
    breaks = {t + n * tau for t in origins for n in range(int(T / tau) + 2)}
    breaks |= {*origins, *np.arange(0, T, tau).tolist(), T}
    ordered = np.array(sorted(b for b in breaks if 0 <= b <= T))
    ordered = ordered[np.append(True, np.diff(ordered) > 1e-10)]
    before = np.array([p["b[0]"], p["b[1]"]])
    pieces: list[Any] = []
    state = before.copy()
    if driven.jump:
        state[0] = p["start"] + v(0.0)
    for a, b in zip(ordered, ordered[1:]):
        # A state is set before what is added at the same time.
        for time, i, kind, amount in sorted(events, key=lambda e: e[2], reverse=True):
            if abs(time - a) < 1e-10:
                state[i] = amount if kind == "set" else state[i] + amount
        middle = 0.5 * (a + b)
        past = [piece for piece in pieces if piece[0] < middle - tau]

        def slope(t, z, a=a, b=b, past=past, middle=middle):
            inside = np.clip(t, a + 1e-11, b - 1e-11)
            x, y = z
            xd, yd = past[-1][1](t - tau) if past else before
            driven_x = p["a"] * u(inside - lag) + v(inside)
            both = np.array(
                [
                    -p["k"] * x - p["c"] * np.tanh(yd) + driven_x,
                    p["k"] * xd - p["c"] * y + 0.3 * w(inside - tau) * x,
                ]
            )
            for begin, end, i, rate in rates:
                both[i] += rate if begin < middle < end else 0.0
            return both

        tight: Any = dict(rtol=tolerance, atol=tolerance, dense_output=True)
        found = solve_ivp(slope, (a, b), state, "DOP853", **tight)
        pieces.append((a, found.sol))
        state = found.y[:, -1].copy()

    def solution(times):
        begins = np.array([begin for begin, _ in pieces])
        which = np.maximum(np.searchsorted(begins + 1e-10, times) - 1, 0)
        return np.stack([pieces[j][1](t) for j, t in zip(which, times)])

    return solution
