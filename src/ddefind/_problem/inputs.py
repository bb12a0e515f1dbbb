r"""Inputs: known functions of time that drive an equation from outside.

An input is a table. Between its knots $t_i$ it is a polynomial in $s = t - t_i$,

$$u(t) = c_{i0} + c_{i1} s + c_{i2} s^2 + c_{i3} s^3 \qquad (t_i \le t < t_{i+1}),$$

whose coefficients are computed once. The table is made of arrays of NumPy, which are
constants and no parameters. In a compiled program they are traced like other arrays, so
that another table of the same length needs no further compilation.
"""

import abc
from typing import Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

Kind = Literal["linear", "steps", "cubic"]
# For each kind the number of the lowest derivative of u that jumps at the knots.
_JUMPS: dict[str, int] = {"steps": 0, "linear": 1, "cubic": 2}
# The share of the length of a table by which a time may lie outside, by rounding.
_ROUNDING = 1e-9


class AbstractInput(eqx.Module):
    """A known function u(t) of time."""

    # The lowest derivative of u that jumps at the knots.
    jump: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def knots(self) -> Any:
        """The times at which u or a derivative of it jumps, in their order."""

    @abc.abstractmethod
    def __call__(self, t: Any) -> jax.Array:
        """Return the value u(t), a number."""

    @abc.abstractmethod
    def lacking(self, first: float, last: float) -> str | None:
        """Return the times between `first` and `last` at which the input is not known,
        in words, or None if it is known at all of them."""

    def covers(self, first: float, last: float) -> bool:
        """Whether the input is known at all times from `first` to `last`."""
        return self.lacking(first, last) is None


@final
class Input(AbstractInput):
    r"""A measured or planned input u(t), given by its values at certain times.

    **Arguments**

    - `t`: the times, in increasing order; at least two.
    - `values`: the value at each time.
    - `kind`: how u goes on between the times: `"linear"`; `"steps"`, each value is held
      until the next time; or `"cubic"`, a smooth curve that is monotone wherever the
      values are (PCHIP).

    An input is known from its first to its last time. It is a constant of a problem,
    never learned.

    >>> u = Input([0.0, 1.0, 3.0], [2.0, 4.0, 0.0])
    >>> float(u(2.0)), u.covers(0, 3), u.covers(-1, 3)
    (2.0, True, False)
    >>> float(Input([0.0, 1.0, 3.0], [2.0, 4.0, 0.0], kind="steps")(2.0))
    4.0
    """

    t: np.ndarray
    coefficients: np.ndarray
    kind: Kind = eqx.field(static=True)

    def __init__(self, t: Any, values: Any, kind: Kind = "linear"):
        if kind not in _JUMPS:
            raise ValueError(
                f'`kind` must be "linear", "steps" or "cubic", but got {kind!r}.'
            )
        self.t, x = _checked_table(t, values)
        self.coefficients = _coefficients(self.t, x, kind)
        self.kind = kind

    @property
    def jump(self) -> int:
        return _JUMPS[self.kind]

    @property
    def knots(self) -> Any:
        return self.t

    @property
    def values(self) -> Any:
        """The values at the times `t`."""
        return self.coefficients[:, 0]

    def __call__(self, t):
        times, rows = jnp.asarray(self.t), jnp.asarray(self.coefficients)
        i = jnp.maximum(jnp.sum(times <= jnp.asarray(t)) - 1, 0)
        row, s = rows[i], t - times[i]
        # Before the first time u is not known; rounding errors do not count. A solver's
        # last step may end after the last time: there u is held.
        little = _ROUNDING * (times[-1] - times[0])
        s = jnp.where(s < 0, jnp.where(s < -little, jnp.nan, 0.0), s)
        value = row[-1]
        for c in row[-2::-1]:
            value = value * s + c
        return value

    def lacking(self, first, last):
        begin, end = float(self.t[0]), float(self.t[-1])
        little = _ROUNDING * (end - begin)
        parts = []
        if first < begin - little:
            parts.append(f"from {first:.6g} to {begin:.6g}")
        if last > end + little:
            parts.append(f"from {max(end, first):.6g} to {last:.6g}")
        return " and ".join(parts) or None

    def padded(self, count: int) -> "Input":
        """Return the input as a table of `count` knots, with the last one repeated."""
        more = count - len(self.t)
        t = np.pad(self.t, (0, more), mode="edge")
        rows = np.pad(self.coefficients, ((0, more), (0, 0)), mode="edge")
        return eqx.tree_at(lambda u: (u.t, u.coefficients), self, (t, rows))


def is_input(leaf: Any) -> bool:
    """Whether a part of a tree is an input."""
    return isinstance(leaf, AbstractInput)


def inputs_in(tree: Any) -> list[AbstractInput]:
    """Return the inputs of a tree, in its order."""
    return [leaf for leaf in jax.tree.leaves(tree, is_leaf=is_input) if is_input(leaf)]


def split_differentiable(tree: Any) -> tuple[Any, Any]:
    """Return the floating-point arrays of a tree, but for inputs, and the rest."""

    def mask(leaf):
        if is_input(leaf):
            return jax.tree.map(lambda _: False, leaf)
        return eqx.is_inexact_array(leaf)

    return eqx.partition(tree, jax.tree.map(mask, tree, is_leaf=is_input))


def _checked_table(t: Any, values: Any) -> tuple[np.ndarray, np.ndarray]:
    try:
        times, x = np.array(t, dtype=float), np.array(values, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(
            "An input needs times and values that are numbers, but got "
            f"{type(t).__name__} and {type(values).__name__}."
        ) from None
    if times.ndim != 1 or x.shape != times.shape or len(times) < 2:
        raise ValueError(
            "An input needs at least two times and one value for each, but the times "
            f"have shape {times.shape} and the values {x.shape}."
        )
    for name, array in (("time", times), ("value", x)):
        wrong = np.flatnonzero(~np.isfinite(array))
        if len(wrong):
            raise ValueError(
                f"The {name} number {wrong[0]} of an input is {array[wrong[0]]}. Leave "
                "out the times at which it was not measured."
            )
    wrong = np.flatnonzero(np.diff(times) <= 0)
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(
            f"The times of an input must increase, but {times[i + 1]:.6g} follows "
            f"{times[i]:.6g}. Sort them, and keep one value for each time."
        )
    return times, x


def _coefficients(t: np.ndarray, x: np.ndarray, kind: str) -> np.ndarray:
    """Return the coefficients [knots, degree + 1] of the polynomials after each knot.
    After the last one the value is held."""
    if kind == "steps":
        return x[:, None]
    h, secant = np.diff(t), np.diff(x) / np.diff(t)
    if kind == "linear":
        return np.stack([x, np.append(secant, 0.0)], axis=1)
    slope = _monotone_slopes(h, secant)
    square = (3 * secant - 2 * slope[:-1] - slope[1:]) / h
    cube = (slope[:-1] + slope[1:] - 2 * secant) / h**2
    rows = np.stack([x[:-1], slope[:-1], square, cube], axis=1)
    return np.concatenate([rows, [[x[-1], 0.0, 0.0, 0.0]]])


def _monotone_slopes(h: np.ndarray, secant: np.ndarray) -> np.ndarray:
    """Return the slopes at the knots of a curve that is monotone wherever the values
    are: weighted harmonic means of the secants on both sides (Fritsch and Butland)."""
    if len(h) == 1:
        return np.repeat(secant, 2)
    left, right = secant[:-1], secant[1:]
    w1, w2 = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    is_monotone = left * right > 0
    safe_left, safe_right = (np.where(is_monotone, s, 1.0) for s in (left, right))
    inner = np.where(is_monotone, (w1 + w2) / (w1 / safe_left + w2 / safe_right), 0.0)
    first = _end_slope(h[0], h[1], secant[0], secant[1])
    last = _end_slope(h[-1], h[-2], secant[-1], secant[-2])
    return np.concatenate([[first], inner, [last]])


def _end_slope(h0: float, h1: float, s0: float, s1: float) -> float:
    """Return the slope at an end, by three points, so that the curve stays monotone."""
    slope = ((2 * h0 + h1) * s0 - h0 * s1) / (h0 + h1)
    if slope * s0 <= 0:
        return 0.0
    return 3 * s0 if s0 * s1 < 0 and abs(slope) > 3 * abs(s0) else slope
