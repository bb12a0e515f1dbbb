r"""Characteristic roots of linear delay equations.

The equation $x'(t) = A x(t) + B x(t - \tau)$ has the solutions $e^{\lambda t} v$ with

$$\Delta(\lambda)\,v = (\lambda I - A - B e^{-\lambda\tau})\,v = 0.$$

The roots $\lambda$ are the eigenvalues of an operator on functions over one delay,
$u(s) = x(t + s)$ for $-\tau \le s \le 0$: it maps u to du/ds, with $A u(0) + B
u(-\tau)$ in the place of the derivative at s = 0. Discretised at Chebyshev points the
operator is a matrix, whose eigenvalues approximate the rightmost roots. Newton's method
makes these exact."""

import numpy as np
from numpy.typing import ArrayLike

# The smallest and the largest number of Chebyshev points.
_FEWEST_POINTS, _MOST_POINTS = 20, 320
# Delta counts as singular if its smallest singular value is below this, relative to the
# size of its terms.
_SINGULAR = 1e-9


def rightmost_roots(
    A: ArrayLike, B: ArrayLike, tau: float, count: int = 6
) -> np.ndarray:
    """The `count` rightmost characteristic roots (or all, if there are fewer), in the
    order of decreasing real parts. Of complex conjugates both are listed.

    >>> rightmost_roots([[-2.0]], [[1.0]], tau=1.0, count=1).round(4)
    array([-0.4429+0.j])
    """
    A, B = np.atleast_2d(np.asarray(A, float)), np.atleast_2d(np.asarray(B, float))
    if not B.any():
        return _without_delay(A, count)
    points, before = _FEWEST_POINTS, None
    while True:
        roots = _polished(A, B, tau, _approximate_roots(A, B, tau, points), count)
        # The points are enough if twice as many give the same roots.
        is_settled = before is not None and _is_same(roots, before)
        if is_settled or 2 * points > _MOST_POINTS:
            return roots if len(roots) else _without_delay(A, count)
        points, before = 2 * points, roots


def _without_delay(A: np.ndarray, count: int) -> np.ndarray:
    """The roots of x' = A x: for equations that do not depend on the past, or whose
    solutions vanish within one delay."""
    roots = np.linalg.eigvals(A).astype(complex)
    return roots[np.argsort(-np.real(roots), kind="stable")][:count]


def _approximate_roots(
    A: np.ndarray, B: np.ndarray, tau: float, points: int
) -> np.ndarray:
    """The eigenvalues of the operator, discretised at Chebyshev points."""
    d = len(A)
    D = _differentiation_matrix(points) * 2 / tau
    generator = np.kron(D, np.eye(d))
    generator[:d] = 0.0
    generator[:d, :d] = A
    generator[:d, -d:] += B
    return np.linalg.eigvals(generator)


def _differentiation_matrix(points: int) -> np.ndarray:
    """The matrix that maps the values of a polynomial at the Chebyshev points, from 1
    down to -1, to its derivatives there."""
    k = np.arange(points + 1)
    x = np.cos(np.pi * k / points)
    weight = np.where((k == 0) | (k == points), 2.0, 1.0) * (-1.0) ** k
    gaps = x[:, None] - x[None, :] + np.eye(points + 1)
    D = np.outer(weight, 1 / weight) / gaps
    return D - np.diag(D.sum(axis=1))


def _polished(
    A: np.ndarray, B: np.ndarray, tau: float, guesses: np.ndarray, count: int
) -> np.ndarray:
    """The distinct roots near the rightmost guesses, by Newton's method."""
    order = np.argsort(-np.real(guesses))
    roots: list[complex] = []
    for guess in guesses[order][: 4 * count + 4 * len(A)]:
        if guess.imag < 0:
            continue
        root = near_root(A, B, tau, complex(guess))
        if root is None or any(abs(root - r) < 1e-7 * (1 + abs(r)) for r in roots):
            continue
        roots.append(root)
    both = [w for r in roots for w in ([r, r.conjugate()] if r.imag else [r])]
    with_conjugates = np.array(both, complex)
    order = np.argsort(-np.real(with_conjugates), kind="stable")
    return with_conjugates[order][:count]


def near_root(
    A: np.ndarray, B: np.ndarray, tau: float, root: complex
) -> complex | None:
    """The characteristic root near the guess `root`, or its conjugate: the one whose
    imaginary part is not negative.

    Newton's method is applied to the root and its vector v together, with v normalised
    by its product with the first approximation. None if it does not converge."""
    if not B.any():
        roots = _without_delay(A, len(A))
        nearest = roots[np.argmin(np.abs(roots - root))]
        return complex(nearest.real, abs(nearest.imag))
    delta = _delta(A, B, tau, root)
    vector = np.linalg.svd(delta)[2][-1].conj()
    norm, step = vector.conj(), np.zeros(1)
    for _ in range(30):
        delta = _delta(A, B, tau, root)
        slope = np.eye(len(A)) + tau * B * np.exp(-root * tau)
        system = np.block(
            [[delta, (slope @ vector)[:, None]], [norm[None], np.zeros(1)]]
        )
        right = -np.append(delta @ vector, norm @ vector - 1)
        step = np.linalg.lstsq(system, right, rcond=None)[0]
        vector, root = vector + step[:-1], root + step[-1]
        # If e^(-root tau) exceeds e^30, Delta is singular up to rounding everywhere.
        if not np.isfinite(root) or -root.real * tau > 30:
            return None
        if abs(step[-1]) < 1e-13 * (1 + abs(root)):
            break
    # Towards a double root each step only halves the error: allow for more of it.
    if abs(step[-1]) > 1e-6 * (1 + abs(root)):
        return None
    if abs(root.imag) < 1e-10 * (1 + abs(root)):
        root = complex(root.real, 0.0)
    smallest = np.linalg.svd(_delta(A, B, tau, root), compute_uv=False)[-1]
    size = abs(root) + np.linalg.norm(A) + np.linalg.norm(B) * np.exp(-root.real * tau)
    is_root = smallest <= _SINGULAR * max(size, 1e-300)
    return complex(root.real, abs(root.imag)) if is_root else None


def _delta(A: np.ndarray, B: np.ndarray, tau: float, root: complex) -> np.ndarray:
    """The characteristic matrix."""
    return root * np.eye(len(A)) - A - B * np.exp(-root * tau)


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    return len(one) == len(other) and np.allclose(one, other, rtol=1e-8, atol=1e-10)
