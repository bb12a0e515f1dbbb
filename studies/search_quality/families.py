"""Families of delay equations of the field, with ranges for their parameters, and
random sums of terms.

A family is written in natural units, in which a state is about 1 and the time about one
delay. `units` says how a parameter changes with the scales of time and states, so that
a model can be drawn in any units: `{"r": "1/t"}`, `{"a": "1/t/P"}`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np

Values = dict[str, float]
Ranges = Mapping[str, tuple[float, float]]


@final
@dataclass(frozen=True)
class Family:
    """A model with the ranges of its parameters, drawn uniformly in the logarithm.

    `history` are the ranges of the values before time zero, `T` that of the length of
    the record in units of the natural time. States that `scaled` lists have units of
    their own, or those of another state in `same_units`. `observe` is what is measured,
    in place of the states, in half of the cases. `finish` computes the values that
    depend on others."""

    text: str
    ranges: Ranges
    history: tuple[tuple[float, float], ...]
    units: Mapping[str, str] = field(default_factory=dict)
    scaled: tuple[str, ...] = ()
    same_units: Mapping[str, str] = field(default_factory=dict)
    T: tuple[float, float] = (8.0, 40.0)
    observe: str | None = None
    finish: Callable[[Values, np.random.Generator], Values] = lambda values, _: values


def _from_logarithm(state: str) -> Callable[[Values, np.random.Generator], Values]:
    """The history of a state that is the logarithm of a population near `state`."""

    def finish(values: Values, random: np.random.Generator) -> Values:
        return values | {"b": float(np.log(values[state]) + random.uniform(-1.5, 1.0))}

    return finish


_RATE = "1/t"

FAMILIES: dict[str, Family] = {
    "logistic": Family(
        "x' = r * x * (1 - x(t - tau) / K)",
        dict(r=(0.9, 2.2), K=(0.5, 2.0), tau=(0.8, 1.2)),
        ((0.1, 2.0),),
        dict(r=_RATE, K="x", tau="t"),
        ("x",),
    ),
    "hutchinson_log": Family(
        "x' = r * (1 - exp(x(t - tau)) / K)",
        dict(r=(0.9, 2.2), K=(1.0, 3000.0), tau=(0.8, 1.2)),
        ((1.0, 2.0),),
        dict(r=_RATE, tau="t"),
        finish=_from_logarithm("K"),
    ),
    "nicholson": Family(
        "N' = P * N(t - tau) * exp(-N(t - tau) / N0) - delta * N",
        dict(P=(4.0, 12.0), N0=(0.5, 2.0), delta=(0.5, 1.5), tau=(1.0, 3.0)),
        ((0.3, 5.0),),
        dict(P=_RATE, N0="N", delta=_RATE, tau="t"),
        ("N",),
        observe="log(N)",
    ),
    "nicholson_log": Family(
        "y' = P * exp(y(t - tau) - y - exp(y(t - tau)) / N0) - delta",
        dict(P=(4.0, 12.0), N0=(1.0, 3000.0), delta=(0.5, 1.5), tau=(1.0, 3.0)),
        ((1.0, 2.0),),
        dict(P=_RATE, delta=_RATE, tau="t"),
        finish=_from_logarithm("N0"),
    ),
    "mackey_glass": Family(
        "x' = beta * x(t - tau) / (1 + (x(t - tau) / K)^n) - gamma * x",
        dict(beta=(1.5, 3.0), gamma=(0.7, 1.3), K=(0.7, 1.5), n=(4, 9), tau=(1, 3)),
        ((0.3, 1.3),),
        dict(beta=_RATE, gamma=_RATE, K="x", tau="t"),
        ("x",),
    ),
    "hill": Family(
        "x' = a / (1 + (x(t - tau) / K)^n) - d * x",
        dict(a=(1.0, 4.0), K=(0.4, 1.5), n=(2.0, 8.0), d=(0.5, 1.5), tau=(1.0, 4.0)),
        ((0.1, 3.0),),
        dict(a="x/t", K="x", d=_RATE, tau="t"),
        ("x",),
    ),
    "gene": Family(
        "m' = a / (1 + (p(t - tau) / K)^n) - d * m; p' = k * m - g * p",
        dict(
            a=(2.0, 8.0),
            K=(0.5, 3.0),
            n=(2.0, 6.0),
            d=(0.3, 1.0),
            k=(0.5, 2.0),
            g=(0.3, 1.0),
            tau=(1.5, 5.0),
        ),
        ((0.2, 3.0), (0.2, 3.0)),
        dict(a="m/t", K="p", d=_RATE, k="p/m/t", g=_RATE, tau="t"),
        ("m", "p"),
        T=(20.0, 60.0),
    ),
    "gene_nucleus": Family(
        "m' = a / (1 + (q(t - tau) / K)^3) - d * m; p' = k * m - g * p;"
        " q' = s * p - u * q",
        dict(
            a=(2.0, 8.0),
            K=(0.3, 1.0),
            d=(0.5, 1.0),
            k=(0.5, 2.0),
            g=(0.5, 1.0),
            s=(0.5, 1.5),
            u=(0.5, 1.0),
            tau=(1.5, 5.0),
        ),
        ((0.2, 3.0), (0.2, 3.0), (0.2, 3.0)),
        dict(a="m/t", K="q", d=_RATE, k="p/m/t", g=_RATE, s="q/p/t", u=_RATE, tau="t"),
        ("m", "p", "q"),
        T=(20.0, 60.0),
    ),
    "predator": Family(
        "N' = r * N * (1 - N / K) - a * N * P;"
        " P' = c * N(t - tau) * P(t - tau) - d * P",
        dict(
            r=(0.5, 2.0),
            K=(1.5, 5.0),
            a=(0.5, 2.0),
            c=(0.3, 1.0),
            d=(0.2, 0.8),
            tau=(0.3, 2.0),
        ),
        ((0.3, 2.0), (0.3, 2.0)),
        dict(r=_RATE, K="N", a="1/t/P", c="1/t/N", d=_RATE, tau="t"),
        ("N", "P"),
        T=(15.0, 60.0),
    ),
    "predator_holling": Family(
        "N' = r * N * (1 - N / K) - a * N * P / (1 + h * N);"
        " P' = e * N(t - tau) * P(t - tau) / (1 + h * N(t - tau)) - d * P",
        dict(
            r=(0.5, 2.0),
            K=(1.5, 5.0),
            a=(0.8, 2.0),
            h=(0.2, 1.0),
            e=(0.5, 1.5),
            d=(0.2, 0.6),
            tau=(0.3, 2.0),
        ),
        ((0.3, 2.0), (0.3, 2.0)),
        dict(r=_RATE, K="N", a="1/t/P", h="1/N", e="1/t/N", d=_RATE, tau="t"),
        ("N", "P"),
        T=(15.0, 60.0),
    ),
    "predator_two_delays": Family(
        "N' = r * N * (1 - N(t - tau_1) / K) - a * N * P;"
        " P' = c * N(t - tau_2) * P - d * P",
        dict(
            r=(0.5, 1.5),
            K=(1.5, 4.0),
            a=(0.5, 2.0),
            c=(0.2, 0.6),
            d=(0.3, 0.8),
            tau_1=(0.3, 1.0),
            tau_2=(0.3, 1.0),
        ),
        ((0.3, 2.0), (0.3, 2.0)),
        dict(r=_RATE, K="N", a="1/t/P", c="1/t/N", d=_RATE, tau_1="t", tau_2="t"),
        ("N", "P"),
        T=(15.0, 40.0),
    ),
    "sir": Family(
        "S' = mu * (M - S) - beta * S * I;"
        " I' = beta * exp(-mu * tau) * S(t - tau) * I(t - tau) - (mu + g) * I",
        dict(
            mu=(0.05, 0.3), M=(0.7, 1.5), beta=(1.5, 6.0), g=(0.3, 1.0), tau=(0.3, 2.0)
        ),
        ((0.3, 1.0), (0.01, 0.1)),
        dict(mu=_RATE, M="S", beta="1/t/S", g=_RATE, tau="t"),
        ("S",),
        {"I": "S"},
        T=(15.0, 40.0),
    ),
    "sirs": Family(
        "S' = g * I(t - tau) - beta * S * I; I' = beta * S * I - g * I;"
        " R' = g * I - g * I(t - tau)",
        dict(beta=(1.5, 4.0), g=(0.5, 1.0), tau=(2.0, 6.0)),
        ((0.5, 1.5), (0.02, 0.2), (0.05, 0.3)),
        dict(beta=_RATE, g=_RATE, tau="t"),
        T=(15.0, 50.0),
    ),
    "hiv": Family(
        "T' = s - d * T - k * T * V;"
        " I' = k * T(t - tau) * V(t - tau) - delta * I; V' = p * I - c * V",
        dict(
            s=(0.3, 1.5),
            d=(0.05, 0.3),
            k=(0.5, 2.0),
            delta=(0.3, 0.8),
            p=(1.0, 4.0),
            c=(1.0, 3.0),
            tau=(0.5, 2.0),
        ),
        ((0.5, 3.0), (0.02, 0.3), (0.05, 0.5)),
        dict(s="T/t", d=_RATE, k="1/t/V", delta=_RATE, p="V/T/t", c=_RATE, tau="t"),
        ("T", "V"),
        {"I": "T"},
        T=(15.0, 40.0),
    ),
    "chemostat": Family(
        "S' = D * (S0 - S) - mu * S * X / (Y * (H + S));"
        " X' = mu * X * S(t - tau) / (H + S(t - tau)) - D * X",
        dict(
            D=(0.15, 0.5),
            S0=(1.0, 4.0),
            mu=(0.7, 1.5),
            Y=(0.3, 0.8),
            H=(0.2, 0.8),
            tau=(3.0, 6.0),
        ),
        ((0.05, 2.0), (0.03, 1.0)),
        dict(D=_RATE, S0="S", mu=_RATE, Y="X/S", H="S", tau="t"),
        ("S", "X"),
        T=(20.0, 60.0),
    ),
    "glucose": Family(
        "G' = q - s * G * I - d * G;"
        " I' = a * G(t - tau)^2 / (k^2 + G(t - tau)^2) - u * I",
        dict(
            q=(1.0, 2.0),
            s=(0.8, 2.5),
            d=(0.02, 0.2),
            a=(1.0, 4.0),
            k=(0.8, 2.5),
            u=(0.4, 1.2),
            tau=(1.0, 4.0),
        ),
        ((0.5, 4.0), (0.2, 2.0)),
        dict(q="G/t", s="1/t/I", d=_RATE, a="I/t", k="G", u=_RATE, tau="t"),
        ("G", "I"),
        T=(15.0, 50.0),
    ),
    "cascade": Family(
        "x' = a / (1 + (z(t - tau) / K)^n) - d * x; y' = k * (x - y); z' = k * (y - z)",
        dict(
            a=(1.0, 4.0), K=(0.4, 1.5), n=(3, 8), d=(0.5, 1.5), k=(0.5, 2), tau=(0.5, 3)
        ),
        ((0.1, 2.0), (0.1, 2.0), (0.1, 2.0)),
        dict(a="x/t", K="x", d=_RATE, k=_RATE, tau="t"),
        T=(20.0, 60.0),
    ),
    "neurons": Family(
        "x' = a * tanh(x(t - tau)) - c * tanh(y(t - tau)) - g * x;"
        " y' = d * tanh(x(t - tau)) - g * y",
        dict(a=(0.5, 2.0), c=(1.0, 3.0), g=(0.5, 1.2), d=(1.0, 3.0), tau=(0.5, 3.0)),
        ((0.1, 2.0), (0.1, 2.0)),
        dict(a=_RATE, c=_RATE, g=_RATE, d=_RATE, tau="t"),
        T=(15.0, 50.0),
    ),
    "enso": Family(
        "h' = a * h - c * h(t - tau) - e * h^3",
        dict(a=(0.8, 1.5), c=(0.6, 1.5), e=(0.5, 2.0), tau=(1.0, 4.0)),
        ((0.1, 1.5),),
        dict(a=_RATE, c=_RATE, e="1/t/h/h", tau="t"),
        ("h",),
        T=(15.0, 60.0),
    ),
}

_NAMES = ("x", "y", "z")
# What one state may feel of the others, or of itself, now and in the past, and the
# states by whose scales its factor is divided. `{su}` divides u by its scale.
_TERMS = (
    ("{u}(t - tau)", "u"),
    ("tanh({u}(t - tau){su})", ""),
    ("{u}(t - tau) / (1 + ({u}(t - tau){su})^2)", "u"),
    ("{v} * {u}(t - tau)", "uv"),
    ("{u}(t - tau)^2", "uu"),
    ("{u} * {v}", "uv"),
    ("{u}", "u"),
    ("exp(-({u}{su})^2)", ""),
    ("1", ""),
)


def random_sum(random: np.random.Generator) -> tuple[str, Values]:
    """A random system of one to three states, each with one to three random terms and a
    damping, and its random values. Each state has a scale of its own, a power of ten.
    The first term of the first state is a delayed one."""
    states = _NAMES[: random.integers(1, 4)]
    powers = random.integers(-2, 4, len(states)) * (random.random() < 0.5)
    scales = {x: 10.0 ** int(power) for x, power in zip(states, powers)}
    values: Values = {}
    lines = []
    for i, state in enumerate(states):
        terms: dict[str, str] = {}
        for j in range(random.integers(1, 4 - len(states) // 3)):
            few = _TERMS[:2] if j == i == 0 else _TERMS
            # In a circle each state feels the one before, so that all are connected.
            u = states[i - 1] if j == 0 else str(random.choice(states))
            v = str(random.choice(states))
            template, units = few[random.integers(len(few))]
            su = "" if scales[u] == 1 else f" / {scales[u]:g}"
            term, name = template.format(u=u, v=v, su=su), f"a{i + 1}{j + 1}"
            size = random.choice([-1, 1]) * random.uniform(0.4, 3.0) * scales[state]
            if term not in terms:
                terms[term] = name
                of = {"u": scales[u], "v": scales[v]}
                values[name] = float(size / np.prod([of[unit] for unit in units]))
        shown = [n if term == "1" else f"{n} * {term}" for term, n in terms.items()]
        power = int(random.choice([1, 3]))
        damping = f"d{i + 1}"
        values[damping] = float(random.uniform(0.2, 1.2) / scales[state] ** (power - 1))
        ending = f"{state}^3" if power == 3 else state
        lines.append(f"{state}' = {' + '.join(shown)} - {damping} * {ending}")
    values["tau"] = float(np.exp(random.uniform(*np.log([0.4, 4.0]))))
    keys = ["b"] if len(states) == 1 else [f"b[{i}]" for i in range(len(states))]
    for key, state in zip(keys, states):
        values[key] = float(random.uniform(-1.5, 1.5) * scales[state])
    return "; ".join(lines), values
