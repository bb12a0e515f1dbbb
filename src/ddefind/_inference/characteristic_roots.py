r"""Characteristic roots of linear delay equations.

The equation $x'(t) = A x(t) + \sum_q B_q x(t - \tau_q)$ has the solutions
$e^{\lambda t} v$ with

$$\Delta(\lambda)\,v = \Bigl(\lambda I - A - \sum_q B_q\,g_q(\lambda)\Bigr)\,v = 0,
  \qquad g_q(\lambda) = e^{-\lambda\tau_q};$$

distributed and neutral terms have other functions g (`characteristic_terms.py`).

The roots $\lambda$ are the eigenvalues of an operator on functions over the longest
delay, $u(s) = x(t + s)$ for $-\max\tau \le s \le 0$: it maps u to du/ds, with $A u(0) +
\sum_q B_q u(-\tau_q)$ in the place of the derivative at s = 0. Discretised at Chebyshev
points the operator is a matrix, whose eigenvalues approximate the roots near zero.
Newton's method makes these exact.

With N points, eigenvalues up to a size of about $N / \max\tau$ are good. Roots farther
up the imaginary axis, as a short delay beside a long one can cause, are sought around
shifts $i\omega$: the differences $\lambda - i\omega$ are the roots for $A - i\omega I$
and $B_q e^{-i\omega\tau_q}$. How far up the shifts must go is known, because

$$|\mathrm{Im}\,\lambda| \le \rho\Bigl(|A - \mathrm{diag}\,A| + \sum_q |B_q|
  e^{-\sigma\tau_q}\Bigr) \quad\text{for every root with } \mathrm{Re}\,\lambda \ge
  \sigma,$$

where $|\cdot|$ is taken of each element, and $\rho$ is the spectral radius: row i of
the equation bounds $|\lambda - A_{ii}|\,|v_i|$, and with it $|\mathrm{Im}\,\lambda|\,
|v_i|$, by row i of this matrix times $|v|$. (For other terms see `Block.highest`.)

States that influence others without being influenced by them make the equation block
triangular. Its roots are those of the blocks, which are sought one by one, to the right
of the essential rate of each block; it stands for the roots where there are none. Both
are described in `linear_delay_equation.py`."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .characteristic_terms import AbstractTerm, SlopeTerm
from .linear_delay_equation import Block, blocks_of

# The smallest and the largest number of Chebyshev points.
_FEWEST_POINTS, _MOST_POINTS = 20, 320
# The largest number of shifts up the imaginary axis. A neutral equation has roots at
# all heights: there more points make fewer shifts, so that these reach equally far.
_MOST_SHIFTS, _MOST_NEUTRAL_SHIFTS = 100, 2000
# Delta counts as singular if its smallest singular value is below this, relative to the
# size of its terms.
_SINGULAR = 1e-9
# If the delayed terms are larger than all others by this factor, Delta is singular up
# to rounding everywhere.
_LARGEST_RATIO = 1e13


def rightmost_roots(
    A: ArrayLike,
    B: ArrayLike,
    tau: ArrayLike | Sequence[AbstractTerm],
    count: int = 6,
) -> np.ndarray:
    """The `count` rightmost characteristic roots (or fewer, if others are not to the
    right of the essential rate), in the order of decreasing real parts. Of complex
    conjugates both are listed.

    `A` has the shape (d, d). With one delay, `B` has that shape too and `tau` is a
    number; with k delays, they have the shapes (k, d, d) and (k,). Delayed terms of
    other kinds stand in a list `tau`.

    >>> rightmost_roots([[-2.0]], [[1.0]], tau=1.0, count=1).round(4)
    array([-0.4429+0.j])
    """
    found = [_rightmost(block, count) for block in blocks_of(A, B, tau)]
    return _with_conjugates(_distinct(np.concatenate(found)), count)


def near_root(
    A: ArrayLike,
    B: ArrayLike,
    tau: ArrayLike | Sequence[AbstractTerm],
    root: complex,
) -> complex | None:
    """The characteristic root near the guess `root`, or its conjugate: the one whose
    imaginary part is not negative; or an essential rate that is nearer. None if
    Newton's method does not find it."""
    roots: list[complex] = []
    for block in blocks_of(A, B, tau):
        found, essential = _near_root(block, root), block.essential
        roots += [] if found is None else [found]
        roots += [complex(essential)] if np.isfinite(essential) else []
    guess = complex(root.real, abs(root.imag))
    return min(roots, key=lambda each: abs(each - guess), default=None)


def essential_rate(A: ArrayLike, B: ArrayLike, tau: Sequence[AbstractTerm]) -> float:
    """The rate up to which no root tells how disturbances decay; minus infinity without
    one."""
    return max(block.essential for block in blocks_of(A, B, tau))


def _rightmost(block: Block, count: int) -> np.ndarray:
    """The rightmost roots of a block, those whose imaginary parts are not negative."""
    if not block.terms:
        return _without_delay(block)
    points, before = _FEWEST_POINTS, None
    while True:
        guesses = _approximate_roots(block, points, 0.0)
        roots = _polished(block, guesses, count)
        if before is not None:
            further = _further_guesses(block, points, before, count)
            both = np.append(roots, _polished(block, further, count))
            roots = _distinct(both)
        # The points are enough if twice as many give the same roots.
        is_settled = before is not None and _is_same(
            _with_conjugates(roots, count), _with_conjugates(before, count)
        )
        if is_settled or 2 * points > _MOST_POINTS:
            if len(roots) == 0 and np.isfinite(block.essential):
                return np.array([block.essential], complex)
            return roots if len(roots) else _without_delay(block)
        points, before = 2 * points, roots


def _without_delay(block: Block) -> np.ndarray:
    """The roots of x' = A x, those whose imaginary parts are not negative."""
    roots = np.linalg.eigvals(block.A).astype(complex)
    return roots[np.imag(roots) >= 0]


def _further_guesses(
    block: Block, points: int, before: np.ndarray, count: int
) -> np.ndarray:
    """Approximate roots that are too far up the imaginary axis for the discretisation
    around zero, but may be to the right of the last of the roots found `before`."""
    wanted = _with_conjugates(before, count)
    leftmost = float(wanted[-1].real) if len(wanted) else min(0.0, block.essential)
    highest = block.highest(leftmost if np.isfinite(leftmost) else 0.0)
    reach = points / block.memory
    most = _MOST_NEUTRAL_SHIFTS // points if block.is_neutral else _MOST_SHIFTS
    number = int(min(np.ceil(max(highest / reach - 1, 0.0) / 2), most))
    found = [np.zeros(0, complex)]
    for shift in 2 * reach * np.arange(1, number + 1):
        guesses = _approximate_roots(block, points, shift)
        # Neighbouring windows overlap a little.
        found.append(guesses[np.abs(np.imag(guesses) - shift) < 1.1 * reach])
    return np.concatenate(found)


def _approximate_roots(block: Block, points: int, shift: float) -> np.ndarray:
    """The roots near i `shift`: the eigenvalues of the operator, discretised at
    Chebyshev points."""
    d, longest, A = len(block.A), block.memory, block.A
    if shift != 0:
        A = A - 1j * shift * np.eye(d)
    D = _differentiation_matrix(points) * 2 / longest
    generator = np.kron(D, np.eye(d)).astype(A.dtype)
    generator[:d] = 0.0
    generator[:d, :d] = A
    for term, coupling in zip(block.terms, block.B):
        delays, weights = term.quadrature()
        if shift != 0:
            weights = weights * np.exp(-1j * shift * delays)
        row = weights @ _interpolation_rows(points, 1 - 2 * delays / longest)
        if isinstance(term, SlopeTerm):
            row = row @ D + (1j * shift * row if shift != 0 else 0.0)
        generator[:d] += np.kron(row, coupling)
    return np.linalg.eigvals(generator) + 1j * shift


def _differentiation_matrix(points: int) -> np.ndarray:
    """The matrix that maps the values of a polynomial at the Chebyshev points, from 1
    down to -1, to its derivatives there."""
    k = np.arange(points + 1)
    x = np.cos(np.pi * k / points)
    weight = np.where((k == 0) | (k == points), 2.0, 1.0) * (-1.0) ** k
    gaps = x[:, None] - x[None, :] + np.eye(points + 1)
    D = np.outer(weight, 1 / weight) / gaps
    return D - np.diag(D.sum(axis=1))


def _interpolation_rows(points: int, places: np.ndarray) -> np.ndarray:
    """The matrix that maps the values of a polynomial at the Chebyshev points to its
    values at `places` between -1 and 1, by the barycentric formula."""
    k = np.arange(points + 1)
    gaps = places[:, None] - np.cos(np.pi * k / points)
    on_point = gaps == 0
    sign = np.where((k == 0) | (k == points), 0.5, 1.0) * (-1.0) ** k
    weight = sign / np.where(on_point, 1.0, gaps)
    weight = np.where(on_point.any(axis=1, keepdims=True), on_point, weight)
    return weight / weight.sum(axis=1, keepdims=True)


def _polished(block: Block, guesses: np.ndarray, count: int) -> np.ndarray:
    """The distinct roots near the rightmost guesses, by Newton's method: those whose
    imaginary parts are not negative, to the right of the essential rate."""
    essential = block.essential
    order = np.argsort(-np.real(guesses))
    rightmost = guesses[order][: 4 * count + 4 * len(block.A)]
    roots = [_near_root(block, complex(g)) for g in rightmost if g.imag >= 0]
    kept = [r for r in roots if r is not None and r.real > essential]
    return _distinct(np.array(kept, complex))


def _near_root(block: Block, root: complex) -> complex | None:
    """The root of a block near the guess `root`, as in `near_root`.

    Newton's method is applied to the root and its vector v together, with v normalised
    by its product with the first approximation."""
    if not block.terms:
        roots = np.linalg.eigvals(block.A)
        nearest = complex(roots[np.argmin(np.abs(roots - root))])
        return complex(nearest.real, abs(nearest.imag))
    A_size = float(np.linalg.norm(block.A))
    if not _is_regular(block, A_size, root):
        return None
    vector = np.linalg.svd(block.delta(root))[2][-1].conj()
    norm, step = vector.conj(), np.zeros(1)
    for _ in range(30):
        delta, slope = block.delta(root), block.delta_slope(root)
        system = np.block(
            [[delta, (slope @ vector)[:, None]], [norm[None], np.zeros(1)]]
        )
        right = -np.append(delta @ vector, norm @ vector - 1)
        step = np.linalg.lstsq(system, right, rcond=None)[0]
        vector, root = vector + step[:-1], root + step[-1]
        if not _is_regular(block, A_size, root):
            return None
        if abs(step[-1]) < 1e-13 * (1 + abs(root)):
            break
    # Towards a double root each step only halves the error: allow for more of it.
    if abs(step[-1]) > 1e-6 * (1 + abs(root)):
        return None
    if abs(root.imag) < 1e-10 * (1 + abs(root)):
        root = complex(root.real, 0.0)
    smallest = np.linalg.svd(block.delta(root), compute_uv=False)[-1]
    size = abs(root) + A_size + block.delayed_size(root)
    is_root = smallest <= _SINGULAR * max(size, 1e-300)
    return complex(root.real, abs(root.imag)) if is_root else None


def _is_regular(block: Block, A_size: float, root: complex) -> bool:
    """Whether the characteristic matrix is finite, and not ruled by its delayed terms
    so much that it is singular up to rounding."""
    if not np.isfinite(root):
        return False
    with np.errstate(over="ignore"):
        return block.delayed_size(root) <= _LARGEST_RATIO * (abs(root) + A_size)


def _distinct(roots: np.ndarray) -> np.ndarray:
    """The roots without those that are repeated, up to rounding."""
    kept: list[complex] = []
    for root in roots.tolist():
        if not any(abs(root - r) < 1e-7 * (1 + abs(r)) for r in kept):
            kept.append(root)
    return np.array(kept, complex)


def _with_conjugates(roots: np.ndarray, count: int) -> np.ndarray:
    """The `count` rightmost roots, with the complex conjugates that the list leaves
    out."""
    both = [w for r in roots.tolist() for w in ([r, r.conjugate()] if r.imag else [r])]
    listed = np.array(both, complex)
    return listed[np.argsort(-np.real(listed), kind="stable")][:count]


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    return len(one) == len(other) and np.allclose(one, other, rtol=1e-8, atol=1e-10)
