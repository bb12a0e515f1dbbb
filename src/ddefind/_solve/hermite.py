"""Cubic Hermite pieces: the dense output of a solve, and the past of a delay.

Between two nodes with states x0, x1, slopes f0, f1 and distance h, at the fraction u,

    x(u) = a0(u) x0 + a1(u) x1 + h (b0(u) f0 + b1(u) f1).

The solution is then continuous with its slope, in time and in the delay.
"""


def state_weights(u):
    """`(a0, a1)`, the weights of the two states."""
    return (1 + 2 * u) * (1 - u) ** 2, u * u * (3 - 2 * u)


def slope_weights(u):
    """`(b0, b1)`, the weights of the two slopes, per unit of h."""
    return u * (1 - u) ** 2, u * u * (u - 1)


def hermite(u, left, right, h):
    """The state at the fraction `u` between two rows `(state, slope)`."""
    (a0, a1), (b0, b1) = state_weights(u), slope_weights(u)
    return a0 * left[0] + a1 * right[0] + h * (b0 * left[1] + b1 * right[1])


def hermite_slope(u, left, right, h):
    """The slope, d/dt, of the same piece; `h` must not be zero."""
    states = 6 * u * (1 - u) / h * (right[0] - left[0])
    return states + (1 - u) * (1 - 3 * u) * left[1] + u * (3 * u - 2) * right[1]
