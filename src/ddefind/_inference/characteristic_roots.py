r"""Characteristic roots of linear delay equations.

The equation $x'(t) = A x(t) + \sum_q B_q x(t - \tau_q)$ has the solutions
$e^{\lambda t} v$ with

$$\Delta(\lambda)\,v = \Bigl(\lambda I - A - \sum_q B_q\,g_q(\lambda)\Bigr)\,v = 0,
  \qquad g_q(\lambda) = e^{-\lambda\tau_q}.$$

Other delayed terms have other functions g: $\lambda e^{-\lambda\tau}$ for the delayed
slope $x'(t - \tau)$, and for a distributed delay the Laplace transform of its density.

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
of the essential rate of each block; it stands for the roots where there are none.

Two kinds of terms have an *essential* rate, up to which no root tells how disturbances
decay. A distributed delay forgets the past at a certain rate. (A gamma distribution
whose shape k is an integer is a chain of k linear equations, and is replaced by it.) In
a neutral equation, roots with ever larger imaginary parts come near the $\sigma$ at
which $\rho(\sum_q C_q e^{-\sigma\tau_q}) = 1$, where $C_q$ are the matrices of the
slopes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from .._problem.kernels import AbstractTerm

# The largest number of equations of a chain that replaces a distribution.
_LONGEST_CHAIN = 10
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


@dataclass(frozen=True)
class AbstractPointTerm(AbstractTerm):
    """Term that reads the past at a single delay."""

    tau: float
    rate: ClassVar[float] = np.inf
    stages: ClassVar[int] = 0

    @property
    def memory(self):
        return self.tau

    def bound(self, sigma, height):
        return float(np.exp(-sigma * self.tau))

    def quadrature(self):
        return np.array([self.tau]), np.ones(1)


@final
@dataclass(frozen=True)
class StateTerm(AbstractPointTerm):
    """The delayed state."""

    def transform(self, root):
        value = np.exp(-root * self.tau)
        return value, -self.tau * value


@final
@dataclass(frozen=True)
class SlopeTerm(AbstractPointTerm):
    """The slope of the delayed state."""

    def transform(self, root):
        value = np.exp(-root * self.tau)
        return root * value, (1 - root * self.tau) * value


class StateBlock(NamedTuple):
    """Linear delay equation of states that all influence each other, directly or by way
    of others. It has only the delayed terms that occur in it, possibly none."""

    A: np.ndarray  # [d, d]
    B: np.ndarray  # [k, d, d]
    terms: tuple[AbstractTerm, ...]  # k of them

    def delta(self, root: complex) -> np.ndarray:
        """Compute the characteristic matrix."""
        delayed = np.einsum("q,qij->ij", self._transforms(root)[0], self.B)
        return root * np.eye(len(self.A)) - self.A - delayed

    def delta_slope(self, root: complex) -> np.ndarray:
        """Compute the derivative of the characteristic matrix for the root."""
        delayed = np.einsum("q,qij->ij", self._transforms(root)[1], self.B)
        return np.eye(len(self.A)) - delayed

    def _transforms(self, root: complex) -> np.ndarray:
        """Compute the functions g of all terms, and their derivatives."""
        return np.array([term.transform(root) for term in self.terms], complex).T

    def delayed_size(self, root: complex) -> float:
        """Compute the size of the delayed terms in the characteristic matrix."""
        norms = np.linalg.norm(self.B, axis=(1, 2))
        with np.errstate(over="ignore", invalid="ignore"):
            return float(norms @ np.abs(self._transforms(root)[0]))

    @property
    def _is_slope(self) -> np.ndarray:
        return np.array([isinstance(term, SlopeTerm) for term in self.terms], bool)

    @property
    def is_neutral(self) -> bool:
        """Whether it has slopes of the past."""
        return bool(np.any(self._is_slope))

    @property
    def essential(self) -> float:
        """The essential rate; minus infinity without one."""
        rates = [-term.rate for term in self.terms]
        if self.is_neutral:
            taus = np.array([t.tau for t in self.terms if isinstance(t, SlopeTerm)])
            rates.append(_neutral_rate(self.B[self._is_slope], taus))
        return max(rates, default=-np.inf)

    def highest(self, sigma: float) -> float:
        r"""Bound the imaginary parts of the roots to the right of `sigma`.

        With N and K the sums of $|B_q|$ times bounds of $|g_q|$ over slopes and over
        all other terms, and R a bound on the real parts,

        $$(I - N)\,|\mathrm{Im}\,\lambda|\,|v| \le \bigl(|A - \mathrm{diag}\,A| + K +
          R N\bigr)\,|v|.$$

        The bounds of $|g_q|$ fall with the imaginary part, so that the largest possible
        one is a fixed point."""
        off = np.abs(self.A - np.diag(np.diag(self.A)))
        right = max(abs(sigma), self._largest(np.abs(self.A), 0.0, 0.0, 0.0))

        def excess(height: float) -> float:
            return self._largest(off, sigma, height, right) - height

        low, high = 0.0, 1.0
        while excess(high) > 0 and high < 1e100:
            low, high = high, 2 * high
        if high >= 1e100 or excess(low) <= 0:
            return low
        return _zero(excess, low, high)

    def _largest(
        self, undelayed: np.ndarray, sigma: float, height: float, right: float
    ) -> float:
        """Compute the spectral radius of $(I - N)^{-1} (undelayed + K + right N)$."""
        with np.errstate(over="ignore"):
            bounds = np.array([term.bound(sigma, height) for term in self.terms])
        sizes = np.minimum(bounds, 1e100)[:, None, None] * np.abs(self.B)
        N, K = sizes[self._is_slope].sum(axis=0), sizes[~self._is_slope].sum(axis=0)
        if np.any(N) and spectral_radius(N) >= 1:
            return 1e100
        matrix = np.linalg.solve(np.eye(len(N)) - N, undelayed + K + right * N)
        return spectral_radius(matrix)


def spectral_radius(matrix: np.ndarray) -> float:
    """Return the largest absolute eigenvalue."""
    return float(np.max(np.abs(np.linalg.eigvals(matrix))))


def _neutral_rate(C: np.ndarray, taus: np.ndarray) -> float:
    """Compute the rate near which a neutral equation has infinitely many roots; with
    several delays a bound, from the absolute values of the matrices."""
    if len(taus) == 1:
        radius = spectral_radius(C[0])
        return float(np.log(radius) / taus[0]) if radius > 0 else -np.inf

    def excess(sigma: float) -> float:
        weights = np.exp(np.minimum(-sigma * taus, 500.0))
        total = np.einsum("q,qij->ij", weights, np.abs(C))
        return float(np.log(spectral_radius(total) + 1e-300))

    end = 100 / np.min(taus)
    if excess(-end) < 0:
        return -np.inf
    return end if excess(end) > 0 else _zero(excess, -end, end)


def _zero(falling: Callable[[float], float], low: float, high: float) -> float:
    """Find where a falling function is zero, by bisection."""
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return high


def _blocks_of(A: Any, B: Any, tau: Any) -> Iterator[StateBlock]:
    """Yield the groups of states that influence each other."""
    terms = tau
    if not (isinstance(tau, list | tuple) and isinstance(tau[0], AbstractTerm)):
        terms = [StateTerm(float(t)) for t in np.ravel(tau)]
    A = np.atleast_2d(np.asarray(A, float))
    B = np.reshape(np.asarray(B, float), (len(terms), *A.shape))
    A, B, terms = _with_chains(A, B, terms)
    is_linked = (A != 0) | np.any(B != 0, axis=0)
    number, labels = connected_components(is_linked, connection="strong")
    for label in range(number):
        states = np.flatnonzero(labels == label)
        inner = B[:, states][:, :, states]
        occurs = np.any(inner != 0, axis=(1, 2))
        kept = tuple(term for term, is_in in zip(terms, occurs) if is_in)
        yield StateBlock(A[np.ix_(states, states)], inner[occurs], kept)


def _with_chains(
    A: np.ndarray, B: np.ndarray, terms: Sequence[AbstractTerm]
) -> tuple[np.ndarray, np.ndarray, list[AbstractTerm]]:
    """Move states without delay into A, and replace every distribution that amounts to
    a chain of few equations by it, with further states for each state that it averages:
    $z_1' = b\\,(x - z_1)$, and so on, for the rate b."""
    kept: list[AbstractTerm] = []
    couplings = []
    for coupling, term in zip(B, terms):
        k = term.stages
        if isinstance(term, StateTerm) and term.tau == 0:
            A = A + np.pad(coupling, (0, len(A) - len(coupling)))
        elif 0 < k <= _LONGEST_CHAIN:
            for state in np.flatnonzero(np.any(coupling != 0, axis=0)):
                last, size = state, len(A)
                A = np.pad(A, (0, k))
                for link in range(size, size + k):
                    A[link, link], A[link, last] = -term.rate, term.rate
                    last = link
                A[: len(coupling), last] = coupling[:, state]
        else:
            couplings.append(coupling)
            kept.append(term)
    padded = [np.pad(each, (0, len(A) - len(each))) for each in couplings]
    return A, np.reshape(padded, (len(kept), *A.shape)), kept


def rightmost_roots(
    A: ArrayLike, B: ArrayLike, tau: ArrayLike | Sequence[AbstractTerm], count: int = 6
) -> np.ndarray:
    """Find the `count` rightmost characteristic roots (or fewer, if others are not to
    the right of the essential rate), in the order of decreasing real parts. Complex
    conjugates are both listed.

    `A` has the shape (d, d). With one delay, `B` has that shape too and `tau` is a
    number; with k delays, they have the shapes (k, d, d) and (k,). Delayed terms of
    other kinds stand in a list `tau`.

    >>> rightmost_roots([[-2.0]], [[1.0]], tau=1.0, count=1).round(4)
    array([-0.4429+0.j])
    """
    found = [_rightmost(block, count) for block in _blocks_of(A, B, tau)]
    return _with_conjugates(_distinct(np.concatenate(found)), count)


def near_root(
    A: ArrayLike, B: ArrayLike, tau: ArrayLike | Sequence[AbstractTerm], root: complex
) -> complex | None:
    """Find the characteristic root near the guess `root` or its conjugate, with an
    imaginary part that is not negative; or an essential rate that is nearer. None if
    Newton's method finds none."""
    roots: list[complex] = []
    for block in _blocks_of(A, B, tau):
        found, essential = _near_root(block, root), block.essential
        roots += [] if found is None else [found]
        roots += [complex(essential)] if np.isfinite(essential) else []
    guess = complex(root.real, abs(root.imag))
    return min(roots, key=lambda each: abs(each - guess), default=None)


def essential_rate(A: ArrayLike, B: ArrayLike, tau: Sequence[AbstractTerm]) -> float:
    """Return the essential rate; minus infinity without one."""
    return max(block.essential for block in _blocks_of(A, B, tau))


def _rightmost(block: StateBlock, count: int) -> np.ndarray:
    """Find the rightmost roots of a block with imaginary parts from zero on."""
    if not block.terms:
        return _without_delay(block)
    points, before, is_settled = _FEWEST_POINTS, None, False
    while True:
        guesses = _approximate_roots(block, points, 0.0)
        roots = _polished(block, guesses, count)
        if before is not None:
            further = _further_guesses(block, points, before, count)
            roots = _distinct(np.append(roots, _polished(block, further, count)))
            # The points are enough if twice as many give the same roots.
            a, b = (_with_conjugates(each, count) for each in (roots, before))
            is_settled = len(a) == len(b) and np.allclose(a, b, rtol=1e-8, atol=1e-10)
        if is_settled or 2 * points > _MOST_POINTS:
            if len(roots):
                return roots
            if np.isfinite(block.essential):
                return np.array([block.essential], complex)
            return _without_delay(block)
        points, before = 2 * points, roots


def _without_delay(block: StateBlock) -> np.ndarray:
    """Return the roots of x' = A x with imaginary parts from zero on."""
    roots = np.linalg.eigvals(block.A).astype(complex)
    return roots[np.imag(roots) >= 0]


def _further_guesses(
    block: StateBlock, points: int, before: np.ndarray, count: int
) -> np.ndarray:
    """Guess the roots that are too far up the imaginary axis for the discretisation
    around zero, but may be to the right of the last of the roots found `before`."""
    wanted = _with_conjugates(before, count)
    leftmost = float(wanted[-1].real) if len(wanted) else min(0.0, block.essential)
    highest = block.highest(leftmost if np.isfinite(leftmost) else 0.0)
    reach = points / max(term.memory for term in block.terms)
    most = _MOST_NEUTRAL_SHIFTS // points if block.is_neutral else _MOST_SHIFTS
    number = int(min(np.ceil(max(highest / reach - 1, 0.0) / 2), most))
    found = [np.zeros(0, complex)]
    for shift in 2 * reach * np.arange(1, number + 1):
        guesses = _approximate_roots(block, points, shift)
        # Adjacent windows overlap a little.
        found.append(guesses[np.abs(np.imag(guesses) - shift) < 1.1 * reach])
    return np.concatenate(found)


def _approximate_roots(block: StateBlock, points: int, shift: float) -> np.ndarray:
    """Approximate the roots near i `shift` by the discretised operator."""
    d, longest, A = len(block.A), max(t.memory for t in block.terms), block.A
    if shift != 0:
        A = A - 1j * shift * np.eye(d)
    D = _differentiation_matrix(points) * 2 / longest
    generator = np.kron(D, np.eye(d)).astype(A.dtype)
    generator[:d] = 0.0
    generator[:d, :d] = A
    for term, coupling in zip(block.terms, block.B):
        delays, weights = map(np.asarray, term.quadrature())
        if shift != 0:
            weights = weights * np.exp(-1j * shift * delays)
        row = weights @ _interpolation_rows(points, 1 - 2 * delays / longest)
        if isinstance(term, SlopeTerm):
            row = row @ D + (1j * shift * row if shift != 0 else 0.0)
        generator[:d] += np.kron(row, coupling)
    return np.linalg.eigvals(generator) + 1j * shift


def _differentiation_matrix(points: int) -> np.ndarray:
    """Return the matrix that maps the values of a polynomial at the Chebyshev points,
    from 1 down to -1, to its derivatives there."""
    k = np.arange(points + 1)
    x = np.cos(np.pi * k / points)
    weight = np.where((k == 0) | (k == points), 2.0, 1.0) * (-1.0) ** k
    gaps = x[:, None] - x[None, :] + np.eye(points + 1)
    D = np.outer(weight, 1 / weight) / gaps
    return D - np.diag(D.sum(axis=1))


def _interpolation_rows(points: int, places: np.ndarray) -> np.ndarray:
    """Return the matrix that maps the values of a polynomial at the Chebyshev points to
    its values at `places` between -1 and 1, by the barycentric formula."""
    k = np.arange(points + 1)
    gaps = places[:, None] - np.cos(np.pi * k / points)
    on_point = gaps == 0
    sign = np.where((k == 0) | (k == points), 0.5, 1.0) * (-1.0) ** k
    weight = sign / np.where(on_point, 1.0, gaps)
    weight = np.where(on_point.any(axis=1, keepdims=True), on_point, weight)
    return weight / weight.sum(axis=1, keepdims=True)


def _polished(block: StateBlock, guesses: np.ndarray, count: int) -> np.ndarray:
    """Find the distinct roots near the rightmost guesses by Newton's method, with
    imaginary parts from zero on, to the right of the essential rate."""
    essential = block.essential
    order = np.argsort(-np.real(guesses))
    rightmost = guesses[order][: 4 * count + 4 * len(block.A)]
    roots = [_near_root(block, complex(g)) for g in rightmost if g.imag >= 0]
    kept = [r for r in roots if r is not None and r.real > essential]
    return _distinct(np.array(kept, complex))


def _near_root(block: StateBlock, root: complex) -> complex | None:
    """Find the root of a block near the guess `root`, as in `near_root`.

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


def _is_regular(block: StateBlock, A_size: float, root: complex) -> bool:
    """Whether the characteristic matrix is finite, and its delayed terms are not so
    large that it is singular up to rounding."""
    if not np.isfinite(root):
        return False
    with np.errstate(over="ignore"):
        return block.delayed_size(root) <= _LARGEST_RATIO * (abs(root) + A_size)


def _distinct(roots: np.ndarray) -> np.ndarray:
    """Drop repeated roots, up to rounding."""
    kept: list[complex] = []
    for root in roots.tolist():
        if not any(abs(root - r) < 1e-7 * (1 + abs(r)) for r in kept):
            kept.append(root)
    return np.array(kept, complex)


def _with_conjugates(roots: np.ndarray, count: int) -> np.ndarray:
    """Add the complex conjugates, and return the `count` rightmost roots."""
    both = [w for r in roots.tolist() for w in ([r, r.conjugate()] if r.imag else [r])]
    listed = np.array(both, complex)
    return listed[np.argsort(-np.real(listed), kind="stable")][:count]
