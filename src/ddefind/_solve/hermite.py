"""Cubic Hermite pieces: the dense output of a solution, and the past of a delay.

Between two nodes with states x0 and x1, slopes f0 and f1 and distance h, the state at
the fraction u of the way from the first to the second is

    x(u) = a0(u) x0 + a1(u) x1 + h (b0(u) f0 + b1(u) f1).

The pieces join with continuous states and slopes. The dense output is therefore
continuously differentiable in time, and also in the delay, which moves the nodes.
"""

from typing import Any


def state_weights(u: Any) -> tuple[Any, Any]:
    """`(a0, a1)`, the weights of the two states."""
    return (1 + 2 * u) * (1 - u) ** 2, u * u * (3 - 2 * u)


def slope_weights(u: Any) -> tuple[Any, Any]:
    """`(b0, b1)`, the weights of the two slopes, for h = 1."""
    return u * (1 - u) ** 2, u * u * (u - 1)


def hermite(u: Any, left: Any, right: Any, h: Any) -> Any:
    """The state at the fraction `u` between two rows `(state, slope)`."""
    (a0, a1), (b0, b1) = state_weights(u), slope_weights(u)
    return a0 * left[0] + a1 * right[0] + h * (b0 * left[1] + b1 * right[1])


def hermite_slope(u: Any, left: Any, right: Any, h: Any) -> Any:
    """The derivative of the same piece for time; `h` must not be zero."""
    states = 6 * u * (1 - u) / h * (right[0] - left[0])
    return states + (1 - u) * (1 - 3 * u) * left[1] + u * (3 * u - 2) * right[1]
