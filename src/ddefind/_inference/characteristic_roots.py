r"""Characteristic roots of linear delay equations.

$x'(t) = A x(t) + B x(t - \tau)$ has the solutions $e^{\lambda t} v$ with

$$\Delta(\lambda)\,v = (\lambda I - A - B e^{-\lambda\tau})\,v = 0.$$

On functions over one delay, $u(\theta) = x(t + \theta)$, time acts as $u' = du/d\theta$
with $u'(0) = A u(0) + B u(-\tau)$. At Chebyshev points that is a matrix, whose
eigenvalues are good guesses of the rightmost roots; Newton's method makes them
exact."""

import numpy as np

_FEWEST, _MOST = 20, 320
# A root is one if the smallest singular value of Delta is below this, relative to its
# largest possible size.
_ROOT = 1e-9


def rightmost_roots(A, B, tau: float, count: int = 6) -> np.ndarray:
    """The `count` rightmost characteristic roots (fewer where there are fewer), by
    falling real part; of a pair of complex conjugates both.

    >>> rightmost_roots([[-2.0]], [[1.0]], tau=1.0, count=1).round(4)
    array([-0.4429+0.j])
    """
    A, B = np.atleast_2d(np.asarray(A, float)), np.atleast_2d(np.asarray(B, float))
    if not B.any():
        return _without_delay(A, count)
    points, before = _FEWEST, None
    while True:
        found = _polished(A, B, tau, _guesses(A, B, tau, points), count)
        # Enough points are those whose double brings nothing new.
        if (before is not None and _same(found, before)) or 2 * points > _MOST:
            return found if len(found) else _without_delay(A, count)
        points, before = 2 * points, found


def _without_delay(A: np.ndarray, count: int) -> np.ndarray:
    """Where all is over within a delay, or nothing depends on the past."""
    roots = np.linalg.eigvals(A).astype(complex)
    return roots[np.argsort(-np.real(roots), kind="stable")][:count]


def _guesses(A: np.ndarray, B: np.ndarray, tau: float, points: int) -> np.ndarray:
    d = len(A)
    D = _differentiation(points) * 2 / tau
    generator = np.kron(D, np.eye(d))
    generator[:d] = 0.0
    generator[:d, :d] = A
    generator[:d, -d:] += B
    return np.linalg.eigvals(generator)


def _differentiation(points: int) -> np.ndarray:
    """The derivative of a polynomial at the Chebyshev points from 1 down to -1, from
    its values there."""
    k = np.arange(points + 1)
    x = np.cos(np.pi * k / points)
    weight = np.where((k == 0) | (k == points), 2.0, 1.0) * (-1.0) ** k
    gaps = x[:, None] - x[None, :] + np.eye(points + 1)
    D = np.outer(weight, 1 / weight) / gaps
    return D - np.diag(D.sum(axis=1))


def _polished(A, B, tau: float, guesses: np.ndarray, count: int) -> np.ndarray:
    """The roots near the rightmost guesses, each once."""
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
    found = np.array(both, complex)
    return found[np.argsort(-np.real(found), kind="stable")][:count]


def near_root(A, B, tau: float, root: complex) -> complex | None:
    """The root of Delta near a guess, with an imaginary part that is not negative, by
    Newton's method on the root and its vector; None where that fails."""
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
        # Beyond e^30 Delta is singular to rounding everywhere.
        if not np.isfinite(root) or -root.real * tau > 30:
            return None
        if abs(step[-1]) < 1e-13 * (1 + abs(root)):
            break
    # Double roots are approached by halves.
    if abs(step[-1]) > 1e-6 * (1 + abs(root)):
        return None
    if abs(root.imag) < 1e-10 * (1 + abs(root)):
        root = complex(root.real, 0.0)
    smallest = np.linalg.svd(_delta(A, B, tau, root), compute_uv=False)[-1]
    size = abs(root) + np.linalg.norm(A) + np.linalg.norm(B) * np.exp(-root.real * tau)
    is_root = smallest <= _ROOT * max(size, 1e-300)
    return complex(root.real, abs(root.imag)) if is_root else None


def _delta(A, B, tau: float, root: complex) -> np.ndarray:
    return root * np.eye(len(A)) - A - B * np.exp(-root * tau)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return len(one) == len(other) and np.allclose(one, other, rtol=1e-8, atol=1e-10)
