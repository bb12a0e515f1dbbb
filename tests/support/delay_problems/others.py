"""Further problems with independent answers, of kinds that the collections lack."""

import math

import jax.numpy as jnp
import numpy as np

import ddefind as dd

from .known import Known, stack


def linear_unit_delay(t):
    """The solution of x' = -x(t - 1), x = 1 before 0: sum_k (-1)^k (t - k + 1)^k / k!
    over k <= t + 1."""
    t = np.asarray(t, float)
    terms = [
        np.where(t > k - 1, (-1) ** k * (t - k + 1) ** k / math.factorial(k), 0.0)
        for k in range(int(t.max()) + 2)
    ]
    return np.sum(terms, axis=0)


def _pantograph(t, a=-1.0, b=0.7, q=0.6):
    """The power series of x' = a x + b x(q t), x(0) = 1."""
    total, term = np.ones_like(t), np.ones_like(t)
    for n in range(200):
        term = term * t * (a + b * q**n) / (n + 1)
        total = total + term
    return total


def _paul(t):
    """u' = u u(ln u) / t from t = 1 on, with u = 1 before: in three parts."""
    e = np.e
    last = (e / (3 - np.log(t))) ** e
    return np.select([t < e, t < e**2], [t, np.exp(t / e)], last)


_DELAYS, _GAINS = (1.0, math.sqrt(2)), (0.5, -0.7)


def _two_neutral(t):
    """x' = sum_i c_i x'(t - tau_i), with x = sin t before 0: by x(t) = sum_i c_i
    (x(t - tau_i) - x(-tau_i))."""
    t = np.asarray(t, float)
    inside = np.maximum(t, 0.0)
    total = np.zeros_like(t)
    if t.max() > 0:
        for tau, gain in zip(_DELAYS, _GAINS):
            total = total + gain * (_two_neutral(inside - tau) + np.sin(tau))
    return np.where(t > 0, total, np.sin(t))


def _prothero(k):
    def rhs(x, y, tau, t):
        # The exact solution is cos t.
        return -k * (x - jnp.cos(t)) - jnp.sin(t) + 0.5 * (y - jnp.cos(t - tau))

    return dd.Problem(rhs, lambda t: stack(jnp.cos(t)), 1.0)


# Development at the speed v(t) = 1 + 0.6 sin t is complete after one unit.


def _developed(t):
    return t + 0.6 * (1 - np.cos(t))


def _threshold():
    """x' = -v(t) x(t - tau), tau' = 1 - v(t) / v(t - tau): in the time in which
    development is steady it is x' = -x(t - 1)."""

    def speed(t):
        return 1 + 0.6 * jnp.sin(t)

    def rhs(x, y, tau, t):
        return stack(-speed(t) * y[0], 1 - speed(t) / speed(t - tau))

    first = 0.0
    for _ in range(60):  # Newton's method for the first delay
        value = -_developed(-first) - 1.0
        first -= value / (1 - 0.6 * np.sin(first))
    history = dd.Constant([1.0, first])
    return dd.Problem(rhs, history, dd.Delay(lambda t, x: x[1])), first


def _threshold_solution(t):
    tau = np.full(np.shape(t), _threshold()[1])
    for _ in range(100):
        late = t - tau
        value = _developed(t) - _developed(late) - 1.0
        tau = tau - value / (1 + 0.6 * np.sin(late))
    return np.stack([linear_unit_delay(_developed(t)), tau], axis=-1)


PROBLEMS = [
    Known(
        "Paul",
        "delay of the state, with kinks in the solution",
        dd.Problem(
            lambda x, y, tau, t: x * y / (1 + t),
            dd.Constant(1.0),
            dd.Delay(lambda t, x: t + 1 - jnp.log(x[0])),
        ),
        11.0,
        "exact, in three parts",
        exact=lambda t: _paul(1 + t),
    ),
    Known(
        "pantograph",
        "proportional delay, which vanishes at the start",
        dd.Problem(
            lambda x, y, tau, t: -x + 0.7 * y,
            dd.Constant(1.0),
            dd.Delay(lambda t, x: 0.4 * t),
        ),
        10.0,
        "power series",
        exact=_pantograph,
        goal=1e-6,
    ),
    Known(
        "two neutral delays",
        "neutral; x' jumps at all sums of the delays",
        dd.Problem(
            lambda x, y, tau, t: _GAINS[0] * y[0][1] + _GAINS[1] * y[1][1],
            dd.Periodic(1.0, 1.0, 0.0),
            tuple(dd.Delay(tau, slope=True) for tau in _DELAYS),
        ),
        6.0,
        "exact, by recursion",
        exact=_two_neutral,
    ),
    Known(
        "Prothero-Robinson",
        "constant delay, stiff (rate 1e6)",
        _prothero(1e6),
        10.0,
        "exact: x = cos t",
        exact=np.cos,
        stiff=True,
    ),
    Known(
        "maturation",
        "delay of the state: maturation at a threshold, at a speed that varies",
        _threshold()[0],
        10.0,
        "exact, by a change of time",
        exact=_threshold_solution,
    ),
]
