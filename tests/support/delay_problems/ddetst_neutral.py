"""The problems E to H of DDETST (Enright and Hayashi): neutral equations, whose
right-hand sides have the slope of a delayed state.

Time begins at zero here: F2 begins at 1/4 in the collection, and is shifted. Where the
collection gives only state and slope at time zero, the history is the line through
them: nothing else of it is ever read."""

import jax.numpy as jnp
import numpy as np

import ddefind as dd

from .known import Known, after, stack, table


def _delay(function) -> dd.Delay:
    return dd.Delay(function, slope=True)


def _line(value: float, slope: float) -> dd.Affine:
    return dd.Affine(a=slope, b=value)


def _E1(x, y, tau, t):
    r, c = np.pi / np.sqrt(3) + 1 / 20, np.sqrt(3) / (2 * np.pi) - 1 / 25
    before, slope = y
    return r * x * (1 - before - c * slope)


def _E2(x, y, tau, t):
    alpha, rho = 0.1, 2.9
    before, slope = y
    eaten = x[0] ** 2 / (x[0] ** 2 + 1)
    return stack(
        x[0] * (1 - before[0] - rho * slope[0]) - x[1] * eaten, x[1] * (eaten - alpha)
    )


def _F1(x, y, tau, t):
    before, slope = y
    power = before ** (2 * jnp.cos(t))
    return (
        2 * jnp.cos(2 * t) * power
        + jnp.log(slope)
        - jnp.log(2 * jnp.cos(t))
        - jnp.sin(t)
    )


def _F2(t):
    """Piece by piece: the points (1 - 2^-i) / 2 accumulate at 1/2."""
    i = np.floor(-np.log2(1 - 2 * t) + 1e-12).astype(int)
    u, B, C, K = np.exp(-(t**2)), 0.0, 0.0, 0.0

    def piece(t, n, B, C, K):
        return np.exp(-(4.0**n) * t**2 + B * t + C) / 2**n + K

    for n in range(1, int(i.max()) + 1):
        start = (1 - 2.0**-n) / 2
        before = piece(start, n - 1, B, C, K)
        C = -(4.0 ** (n - 2)) - B / 2 + C
        B = 2 * (4.0 ** (n - 1) + B)
        K = before - piece(start, n, B, C, 0.0)
        u = np.where(i >= n, piece(t, n, B, C, K), u)
    return u


def _delayed_time(t):
    """It is t at half-integers, and 0 at integers."""
    return 0.5 * t * (1 - jnp.cos(2 * jnp.pi * t))


def _F3(strength):
    def rhs(x, y, tau, t):
        slope = y[1]
        change = jnp.sin(slope) - jnp.sin(1 / (3 + _delayed_time(t)))
        return jnp.exp(-x) + strength * change

    return dd.Problem(
        rhs, _line(np.log(3.0), 1 / 3), _delay(lambda t, x: t - _delayed_time(t))
    )


def _H1(x, y, tau, t):
    curve = 4 * t * x**2 / (4 + jnp.log(jnp.cos(2 * t)) ** 2)
    return -curve + jnp.tan(2 * t) + 0.5 * jnp.arctan(y[1])


def _H2(strength):
    def rhs(x, y, tau, t):
        before, slope = y
        late = t * jnp.sin(t) ** 2
        return (
            jnp.cos(t) * (1 + before)
            + strength * x * slope
            + (1 - strength) * jnp.sin(t) * jnp.cos(late)
            - jnp.sin(t + late)
        )

    return dd.Problem(rhs, _line(0.0, 1.0), _delay(lambda t, x: t - t * x[0] ** 2))


# Times, each with the state.
_PREY = """
0.5 1.2719569705001368 1.5 0.3735315894238088 2.5 1.0932029761399822
5.2 0.633318330238452 10.3 0.9559718407710885 20.4 0.5722059679307643
30.6 0.816249783975095 40 0.8044138361971273
"""
PROBLEMS = [
    Known(
        "E1",
        "constant delay",
        dd.Problem(_E1, _line(2.0, 1.0), dd.Delay(1.0, slope=True)),
        40.0,
        values=table(_PREY, 1),
    ),
    Known(
        "E2",
        "constant delay (predator and prey)",
        dd.Problem(
            _E2, dd.Affine([-0.1, 0.1], [0.33, 2.22]), dd.Delay(0.42, slope=True)
        ),
        2.0,
        values={
            0.3: [0.35588079995841426, 2.22348156731883],
            0.6: [0.34761933117446425, 2.2328060372940146],
            0.9: [0.33037751882481675, 2.2331698687306627],
            1.2: [0.3567424274244078, 2.237022458461101],
            1.5: [0.33675652312372495, 2.24349566816881],
            1.8: [0.33293900470607624, 2.2416256782104274],
            2: [0.35006183268284224, 2.2436853421424305],
        },
    ),
    Known(
        "F1",
        "proportional delay, which vanishes at the start",
        dd.Problem(_F1, _line(1.0, 2.0), _delay(lambda t, x: t / 2)),
        1.0,
        "exact: u = exp(sin 2t)",
        exact=lambda t: np.exp(np.sin(2 * t)),
    ),
    Known(
        "F2",
        "delay of time; breaking points accumulate behind the end",
        dd.Problem(
            lambda x, y, tau, t: y[1],
            lambda t: stack(jnp.exp(-((t + 0.25) ** 2))),
            _delay(lambda t, x: 0.25 - t),
        ),
        0.249,
        "exact, piece by piece",
        exact=after(0.25, _F2),
    ),
    *(
        Known(
            name,
            "delay of time, which vanishes twenty times",
            _F3(strength),
            10.0,
            "exact: u = log(t + 3)",
            exact=lambda t: np.log(t + 3),
        )
        for name, strength in (("F3", 0.2), ("F4", 0.4), ("F5", 0.6))
    ),
    *(
        Known(
            name,
            "delay of the state; the delayed time reaches 0 at the end",
            dd.Problem(lambda x, y, tau, t: -y[1], _line(1.0, -1.0), _delay(tau)),
            1.0,
            "exact: u = t + 1",
            exact=lambda t: t + 1,
        )
        for name, tau in (
            ("G1", lambda t, x: x[0] ** 2 / 4),
            ("G2", lambda t, x: t - x[0] + 2),
        )
    ),
    Known(
        "H1",
        "delay of the state, which vanishes at the start",
        dd.Problem(
            _H1,
            dd.Constant(0.0),
            _delay(lambda t, x: t - t * x[0] ** 2 / (1 + x[0] ** 2)),
        ),
        0.225 * np.pi,
        "exact: u = -log(cos 2t) / 2",
        exact=lambda t: -np.log(np.cos(2 * t)) / 2,
    ),
    *(
        Known(
            name,
            "delay of the state, which vanishes at the start and in the middle",
            _H2(strength),
            np.pi,
            "exact: u = sin t",
            exact=np.sin,
        )
        for name, strength in (("H2", 0.1), ("H3", 0.3), ("H4", 0.5))
    ),
]
