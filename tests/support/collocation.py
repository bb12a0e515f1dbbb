"""Reference solutions of delay equations: collocation at many Radau points.

On each step the slope is a polynomial through nine Radau points, and Newton's method
finds the one that satisfies the equation there. Delayed states, and the slopes of
neutral equations, are read from these polynomials, also from that of the step itself.
Steps end at breaking points, which are located. It is slow and knows no derivatives for
parameters; it has nothing in common with the solvers of the package but the problem."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

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


# A jump in a derivative of this order, or of a higher one, does not disturb a step.
_SMOOTH = 8
_INSIDE = np.linspace(0.0, 1.0, 33)[1:]


def reference(
    problem: dd.Problem,
    T: float,
    tolerance: float = 1e-13,
    *,
    floor: Any = 0.0,
    switches: Sequence[float] = (),
    kinks: Callable[..., Any] | None = None,
    first: float = 1e-3,
    largest: float = np.inf,
    tracked: int = _SMOOTH,
) -> Reference:
    """Solve a problem. `floor` is the size below which a component counts as small,
    `kinks(t, x, y)` a vector of functions at whose zeros the equation has a kink, and
    `switches` are times at which it jumps."""
    equation = Equation(problem)
    path = Reference(equation, np.asarray(problem.start, float))
    march = _March(problem, equation, path, T, tolerance, floor, kinks, tracked)
    march.switches = [s for s in sorted(switches) if 0 < s < T] + [T]
    march.run(first, largest)
    return path


class _Event(NamedTuple):
    """Where a step must end: the delay that reads a breaking point there (or None at a
    kink), the index of the point (or of the kink), and the order of what jumps."""

    delay: int | None
    index: int
    order: int


@final
class _March:
    """The state of a solution under way. `breaks` are breaking points: the time, the
    order of the derivative that jumps, and the piece that begins there. `sides` has for
    each delay the number of breaking points before its delayed time, and `signs` has
    the signs of the kinks."""

    def __init__(self, problem, equation, path, T, tolerance, floor, kinks, tracked):
        self.equation, self.path, self.T = equation, path, T
        self.tolerance, self.tracked = tolerance, tracked
        self.floor = np.broadcast_to(floor, equation.d)
        self.kinks = kinks and jax.jit(jax.vmap(kinks))
        self.breaks = [(s, 0, -1) for s in sorted(problem.switches) if s < 0]
        self.breaks.append((0.0, 0 if problem.has_jump else 1, 0))
        self.switches: list[float] = []
        self.stop = T
        self.sides: list[int] = []
        self.signs: np.ndarray | None = None

    def run(self, h: float, largest: float) -> None:
        t, x, path = 0.0, self.path.start, self.path
        slope = np.asarray(self.equation.before(np.zeros(1))[1])
        self.sides = self.first_sides(h, slope[0])
        K = np.broadcast_to(slope, (STAGES, self.equation.d))
        failures = 0
        while t < self.T:
            self.stop = stop = next(s for s in self.switches if s > t)
            h = min(h, largest)
            stops = t + 1.01 * h >= stop
            if stops:
                h = stop - t
            guess = np.broadcast_to(K[-1], K.shape)
            found = self.step(t, x, h, guess)
            failures = failures + 1 if found is None or found[2] > 1 else 0
            if failures > 60:
                raise RuntimeError(f"No step was found at t = {t!r}, h = {h!r}.")
            if found is None:
                h /= 4 if failures < 10 else 10
                continue
            error = found[2]
            if error > 1:
                h *= max(0.2, 0.8 * error ** (-1 / STAGES))
                continue
            end, order = stop if stops else t + h, 1 if stops else None
            first = self.event(t, x, h, found[1])
            event = first and first[0]
            if first is not None:
                event, bracket = first
                now = self.value(t, x, h, 0.0, found[1], event)
                later = self.value(t, x, h, bracket[1], found[1], event)
                # An event at the beginning of the step belongs to the step before.
                is_here = now * later > 0 or abs(now) < self.near(t)
                if bracket[0] == 0 and is_here:
                    self.passed(event)
                    self.add_break(t, x, event.order)
                    continue
                located = self.locate(t, x, h, found, event, bracket)
                if located is None:
                    h /= 4
                    continue
                end, found, order = *located, event.order
            K, coefficients, _ = found
            h = end - t
            path.append(end, x, coefficients)
            if event is not None:
                self.passed(event)
            x = x + h * coefficients[0]
            t = end
            path.scale = np.maximum(path.scale, np.abs(x))
            if order is not None:
                self.add_break(t, x, order)
            h *= min(4.0, max(0.3, 0.8 * max(error, 1e-12) ** (-1 / STAGES)))

    def near(self, t: float) -> float:
        return 1e-12 * max(t, 1e-3)

    def first_sides(self, h: float, slope: np.ndarray) -> list[int]:
        x, moment = self.path.start, np.array([0.0, 1e-6 * h])
        states = np.stack([x, x + 1e-6 * h * slope])
        now, then = moment[:, None] - np.asarray(self.equation.delays(moment, states))
        times = [b[0] for b in self.breaks]
        return [
            sum(b < at or (b <= at + self.near(0.0) and later > b) for b in times)
            for at, later in zip(now, then)
        ]

    def passed(self, event: _Event) -> None:
        if event.delay is None:
            assert self.signs is not None
            self.signs[event.index] *= -1
        else:
            up = event.index == self.sides[event.delay]
            self.sides[event.delay] += 1 if up else -1

    def add_break(self, t: float, x: np.ndarray, order: int) -> None:
        if order >= self.tracked:
            return
        last, known, piece = self.breaks[-1]
        if last == t:
            self.breaks[-1] = (t, min(order, known), piece)
            return
        delays = np.asarray(self.equation.delays(np.array([t]), x[None]))[0]
        self.breaks.append((t, order, len(self.path.nodes) - 1))
        self.path.breaks.append(t)
        for i, tau in enumerate(delays):
            if tau < self.near(t):
                self.sides[i] = len(self.breaks)

    def states(self, x, h, c, coefficients):
        return x + h * np.einsum("ms,sd->md", integrals(c), coefficients)

    def delayed_times(self, t, x, h, c, coefficients):
        times = t + h * c
        states = self.states(x, h, c, coefficients)
        return times[:, None] - np.asarray(self.equation.delays(times, states))

    def evaluate(self, t, x, h, c, states, slopes):
        """F and the delayed states at the fractions `c`, for batches of polynomials
        [P, c, d], whose coefficients are `slopes`."""
        P, n, d = states.shape
        # At the end of a step that ends at a switch, the equation is the one before.
        inside = np.minimum(t + h * c, np.nextafter(self.stop, 0.0))
        times = np.broadcast_to(inside, (P, n)).reshape(-1)
        flat = states.reshape(-1, d)
        tau = np.asarray(self.equation.delays(times, flat))
        y = np.empty((P * n, self.equation.k, d))
        dy = np.empty_like(y)
        own = len(self.path.nodes) - 1
        for i, j in enumerate(self.sides):
            low = self.breaks[j - 1][2] if j > 0 else -1
            high = self.breaks[j][2] - 1 if j < len(self.breaks) else own
            at = times - tau[:, i]
            inside = (at > t) & (high >= own) | (low >= own)
            if (~inside).any():
                m = int((~inside).sum())
                highest = max(min(high, own - 1), low)
                y[~inside, i], dy[~inside, i] = self.path.read(
                    at[~inside], np.full(m, low), np.full(m, highest)
                )
            if inside.any():
                which = np.repeat(np.arange(P), n)[inside]
                v = (at[inside] - t) / h
                y[inside, i] = x + h * np.einsum(
                    "ms,msd->md", integrals(v), slopes[which]
                )
                dy[inside, i] = np.einsum("ms,msd->md", basis(v), slopes[which])
        F = np.asarray(self.equation.slope(times, flat, tau, y, dy))
        return F.reshape(P, n, d), y

    def residual(self, t, x, h, K):
        states = x + h * np.einsum("ij,pjd->pid", TO_STATES, K)
        slopes = np.einsum("ij,pjd->pid", TO_COEFFICIENTS, K)
        return K - self.evaluate(t, x, h, POINTS, states, slopes)[0]

    def step(self, t, x, h, guess):
        """The slopes at the points, their coefficients, and an estimate of the error in
        tolerances; or None where Newton's method does not converge."""
        d = self.equation.d
        scale = np.maximum(self.path.scale, self.floor) + 1e-300
        K, inverse, last = np.array(guess, float), None, np.inf
        for iteration in range(60):
            if inverse is None:
                weights = np.tile(
                    1e-7 * np.maximum(scale / h, np.abs(K).max(0)), STAGES
                )
                moved = K + (np.eye(STAGES * d) * weights).reshape(-1, STAGES, d)
                batch = np.concatenate([K[None], moved])
                R = self.residual(t, x, h, batch).reshape(-1, STAGES * d)
                matrix = ((R[1:] - R[0]) / weights[:, None]).T
                if not np.isfinite(matrix).all() or not np.isfinite(R).all():
                    return None
                try:
                    inverse = np.linalg.inv(matrix * np.tile(scale, STAGES))
                except np.linalg.LinAlgError:
                    return None
                found = R[0]
            else:
                found = self.residual(t, x, h, K[None]).reshape(-1)
            move = (inverse @ found).reshape(STAGES, d)
            K = K - move * scale
            size = h * np.abs(move).max()
            if not size < 1e8:
                return None
            if size < 2e-16 or (size < 1e-14 and size > 0.3 * last):
                break
            if size > 0.1 * last and size > 1e-14:
                inverse = None
                if iteration > 25:
                    return None
            last = size
        else:
            return None
        coefficients = TO_COEFFICIENTS @ K
        now = np.maximum(np.abs(x), np.abs(x + h * coefficients[0]))
        size = np.maximum(now, self.floor) + 1e-300
        tail = np.abs(coefficients[-1]) + 0.1 * np.abs(coefficients[-2])
        return K, coefficients, np.max(h * tail / size) / self.tolerance

    def kink_values(self, t, x, h, c, coefficients):
        states = self.states(x, h, c, coefficients)
        y = self.evaluate(t, x, h, c, states[None], coefficients[None])[1]
        assert self.kinks is not None
        return np.asarray(self.kinks(t + h * c, states, y))

    def event(self, t, x, h, coefficients) -> tuple[_Event, tuple[float, float]] | None:
        """The first event inside a step, and the fractions between which it is."""
        at = self.delayed_times(t, x, h, _INSIDE, coefficients)
        found: list[tuple[int, _Event]] = []

        def look(bad, event):
            if bad.any():
                found.append((int(np.argmax(bad)), event))

        for i, j in enumerate(self.sides):
            for point in (j, j - 1):
                if 0 <= point < len(self.breaks):
                    time, order, _ = self.breaks[point]
                    order += not self.equation.slopes[i]
                    distance = time - at[:, i] if point == j else at[:, i] - time
                    event = _Event(i, point, max(order, 1))
                    look(distance < -self.near(t), event)
        if self.kinks is not None:
            values = self.kink_values(t, x, h, _INSIDE, coefficients)
            if self.signs is None:
                self.signs = np.sign(values[0])
            for n, bad in enumerate((values * self.signs < -1e-13).T):
                look(bad, _Event(None, n, 2))
        if not found:
            return None
        m, event = min(found, key=lambda each: each[0])
        return event, (_INSIDE[m - 1] if m else 0.0, _INSIDE[m])

    def locate(self, t, x, h, found, event: _Event, bracket):
        """The end of the step at an event, and the step that ends there."""
        end = t + h
        for _ in range(40):
            at = self.root(t, x, end - t, found[1], event, bracket)
            if not at > t:
                return None
            settled = abs(at - end) <= 4e-16 * max(at, 1e-3)
            end, bracket = at, (0.9, 1.05)
            found = self.step(t, x, end - t, found[0])
            if found is None or settled:
                break
        return None if found is None else (end, found)

    def value(self, t, x, h, c, coefficients, event: _Event) -> float:
        """The function that is zero at an event, at the fraction `c` of a step."""
        c = np.array([c])
        if event.delay is None:
            return self.kink_values(t, x, h, c, coefficients)[0, event.index]
        at = self.delayed_times(t, x, h, c, coefficients)[0, event.delay]
        return at - self.breaks[event.index][0]

    def root(self, t, x, h, coefficients, event: _Event, bracket) -> float:
        """Where the function of an event is zero, by bisection and secants."""

        def value(c):
            return self.value(t, x, h, c, coefficients, event)

        low, high = bracket
        a, b = value(low), value(high)
        for _ in range(30):
            if a * b <= 0:
                break
            low, high = max(low - 0.1, 1e-12), high + 0.01
            a, b = value(low), value(high)
        c = high
        for n in range(80):
            c = (
                high - b * (high - low) / (b - a)
                if n % 3 and b != a
                else (low + high) / 2
            )
            v = value(c)
            if v == 0 or high - low < 4e-16:
                break
            if a * v < 0:
                high, b = c, v
            else:
                low, a = c, v
        return t + h * c
