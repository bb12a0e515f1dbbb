"""The polynomials of `collocation.py`: a solution as pieces, and the equation that they
shall satisfy, for many times at once."""

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import legendre

import ddefind as dd
from ddefind._problem.delays import AbstractConstantDelay, in_structure, is_delay
from ddefind._problem.general_delays import has_slope

STAGES = 9


def _radau_points(s: int) -> np.ndarray:
    """The right-hand Radau points in (0, 1]."""
    difference = np.zeros(s + 1)
    difference[s - 1 :] = -1.0, 1.0
    roots = np.sort(legendre.legroots(difference).real)
    roots[-1] = 1.0
    for _ in range(3):
        slope = legendre.legval(roots[:-1], legendre.legder(difference))
        roots[:-1] -= legendre.legval(roots[:-1], difference) / slope
    return (roots + 1) / 2


def basis(c: Any) -> np.ndarray:
    """Legendre polynomials on [0, 1], of degrees 0 to S - 1."""
    return legendre.legvander(2 * np.asarray(c) - 1, STAGES - 1)


def integrals(c: Any) -> np.ndarray:
    """Their integrals from 0 to c."""
    u = 2 * np.asarray(c) - 1
    P = legendre.legvander(u, STAGES)
    rest = [
        (P[..., n + 1] - P[..., n - 1]) / (2 * (2 * n + 1)) for n in range(1, STAGES)
    ]
    return np.stack([(u + 1) / 2, *rest], axis=-1)


POINTS = _radau_points(STAGES)
TO_COEFFICIENTS = np.linalg.inv(basis(POINTS))
TO_STATES = integrals(POINTS) @ TO_COEFFICIENTS


@final
class Equation:
    """A problem's functions for many times at once, with the past as arrays."""

    def __init__(self, problem: dd.Problem):
        leaves = jax.tree.leaves(problem.tau, is_leaf=is_delay)
        self.k, self.d = len(leaves), problem.dimension
        self.slopes = [has_slope(leaf) for leaf in leaves]
        self.neutral = any(self.slopes)

        def delays(t, x):
            values = []
            for leaf in leaves:
                if isinstance(leaf, AbstractConstantDelay):
                    values.append(leaf())
                else:
                    values.append(leaf(t, x) if is_delay(leaf) else leaf)
            return jnp.stack([jnp.asarray(value, float) for value in values])

        def slope(t, x, tau, y, dy):
            items = [
                (y[i], dy[i]) if pair else y[i] for i, pair in enumerate(self.slopes)
            ]
            structured = [in_structure(problem.tau, list(a)) for a in (items, tau)]
            return problem.rhs(x, *structured, t)

        def before(t):
            return jax.jvp(problem.history, (t,), (jnp.ones_like(t),))

        self.delays, self.slope, self.before = (
            jax.jit(jax.vmap(each)) for each in (delays, slope, before)
        )


@final
class Reference:
    """The solution, as a function of a vector of times; `breaks` are the breaking
    points that were found, and `scale` is the largest |x| of each component."""

    def __init__(self, equation: Equation, start: np.ndarray):
        self.equation, self.start = equation, start
        self._count, self._times = 0, np.zeros(1)
        self._states = np.empty((0, equation.d))
        self._coefficients = np.empty((0, STAGES, equation.d))
        self.breaks: list[float] = []
        self.scale = np.abs(start)

    def append(self, end: float, x: np.ndarray, coefficients: np.ndarray) -> None:
        n = self._count
        if n == len(self._states):
            grown = 2 * n + 64
            self._times = np.resize(self._times, grown + 1)
            self._states = np.resize(self._states, (grown, *x.shape))
            shape = (grown, *coefficients.shape)
            self._coefficients = np.resize(self._coefficients, shape)
        self._times[n + 1], self._states[n] = end, x
        self._coefficients[n] = coefficients
        self._count = n + 1

    @property
    def nodes(self) -> np.ndarray:
        return self._times[: self._count + 1]

    def read(self, t, lowest, highest):
        """States and slopes at times, from the pieces `lowest` to `highest` of each
        (-1: the history); a piece is continued beyond its ends."""
        nodes = self.nodes
        piece = np.clip(np.searchsorted(nodes, t, "right") - 1, lowest, highest)
        x = np.empty((*np.shape(t), self.equation.d))
        dx = np.empty_like(x)
        past = piece < 0
        if past.any():
            times, counts = np.zeros(1 << int(past.sum() - 1).bit_length()), past.sum()
            times[:counts] = t[past]
            old, slope = self.equation.before(times)
            x[past], dx[past] = old[:counts], slope[:counts]
        if (~past).any():
            p = piece[~past]
            h = nodes[p + 1] - nodes[p]
            c = (t[~past] - nodes[p]) / h
            coefficients = self._coefficients[p]
            moved = np.einsum("ms,msd->md", integrals(c), coefficients)
            x[~past] = self._states[p] + h[:, None] * moved
            dx[~past] = np.einsum("ms,msd->md", basis(c), coefficients)
        return x, dx

    def __call__(self, t: Any) -> np.ndarray:
        t = np.atleast_1d(np.asarray(t, float))
        last = self._count - 1
        return self.read(t, np.where(t < 0, -1, 0), np.full(t.shape, last))[0]
