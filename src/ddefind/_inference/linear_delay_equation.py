r"""A linear delay equation as blocks of states that influence each other.

Two kinds of terms have an *essential* rate, up to which no root tells how disturbances
decay. A gamma distribution forgets the past at the rate $b = k / m$. (With a shape that
is an integer it is a chain of k linear equations, and is replaced by it.) In a neutral
equation, roots with ever larger imaginary parts come near the $\sigma$ at which
$\rho(\sum_q C_q e^{-\sigma\tau_q}) = 1$, where $C_q$ are the matrices of the slopes.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from .characteristic_terms import AbstractTerm, GammaTerm, SlopeTerm, StateTerm

# The largest shape of a gamma distribution that is replaced by a chain.
_LONGEST_CHAIN = 10


class Block(NamedTuple):
    """A linear delay equation of states that all influence each other, directly or by
    way of others. It has only the delayed terms that occur in it, possibly none."""

    A: np.ndarray  # [d, d]
    B: np.ndarray  # [k, d, d]
    terms: tuple[AbstractTerm, ...]  # k of them

    @property
    def memory(self) -> float:
        """How far back its terms read."""
        return max(term.memory for term in self.terms)

    def delta(self, root: complex) -> np.ndarray:
        """The characteristic matrix."""
        delayed = np.einsum("q,qij->ij", self._transforms(root)[0], self.B)
        return root * np.eye(len(self.A)) - self.A - delayed

    def delta_slope(self, root: complex) -> np.ndarray:
        """The derivative of the characteristic matrix for the root."""
        delayed = np.einsum("q,qij->ij", self._transforms(root)[1], self.B)
        return np.eye(len(self.A)) - delayed

    def _transforms(self, root: complex) -> np.ndarray:
        """The functions g of all terms, and their derivatives."""
        return np.array([term.transform(root) for term in self.terms], complex).T

    def delayed_size(self, root: complex) -> float:
        """The size of the delayed terms in the characteristic matrix."""
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
        rates = [-t.rate for t in self.terms if isinstance(t, GammaTerm)]
        if self.is_neutral:
            taus = np.array([t.tau for t in self.terms if isinstance(t, SlopeTerm)])
            rates.append(_neutral_rate(self.B[self._is_slope], taus))
        return max(rates, default=-np.inf)

    def highest(self, sigma: float) -> float:
        r"""A bound on the imaginary parts of the roots to the right of `sigma`.

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
        """The spectral radius of $(I - N)^{-1} (undelayed + K + right N)$."""
        with np.errstate(over="ignore"):
            bounds = np.array([term.bound(sigma, height) for term in self.terms])
        sizes = np.minimum(bounds, 1e100)[:, None, None] * np.abs(self.B)
        N, K = sizes[self._is_slope].sum(axis=0), sizes[~self._is_slope].sum(axis=0)
        if np.any(N) and np.max(np.abs(np.linalg.eigvals(N))) >= 1:
            return 1e100
        matrix = np.linalg.solve(np.eye(len(N)) - N, undelayed + K + right * N)
        return float(np.max(np.abs(np.linalg.eigvals(matrix))))


def _neutral_rate(C: np.ndarray, taus: np.ndarray) -> float:
    """The rate near which a neutral equation has infinitely many roots. With several
    delays the matrices are taken by their absolute values, which makes it a bound."""
    if len(taus) == 1:
        radius = np.max(np.abs(np.linalg.eigvals(C[0])))
        return float(np.log(radius) / taus[0]) if radius > 0 else -np.inf

    def excess(sigma: float) -> float:
        weights = np.exp(np.minimum(-sigma * taus, 500.0))
        total = np.einsum("q,qij->ij", weights, np.abs(C))
        return float(np.log(np.max(np.abs(np.linalg.eigvals(total))) + 1e-300))

    end = 100 / np.min(taus)
    if excess(-end) < 0:
        return -np.inf
    return end if excess(end) > 0 else _zero(excess, -end, end)


def _zero(falling: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function is zero, by bisection."""
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return high


def blocks_of(A: Any, B: Any, tau: Any) -> Iterator[Block]:
    """The blocks of an equation: the groups of states that influence each other."""
    terms = tau if _is_terms(tau) else [StateTerm(float(t)) for t in np.ravel(tau)]
    A = np.atleast_2d(np.asarray(A, float))
    B = np.reshape(np.asarray(B, float), (len(terms), *A.shape))
    A, B, terms = _with_chains(A, B, terms)
    is_linked = (A != 0) | np.any(B != 0, axis=0)
    number, labels = connected_components(is_linked, connection="strong")
    for label in range(number):
        own = np.flatnonzero(labels == label)
        inner = B[:, own][:, :, own]
        occurs = np.any(inner != 0, axis=(1, 2))
        kept = tuple(term for term, is_in in zip(terms, occurs) if is_in)
        yield Block(A[np.ix_(own, own)], inner[occurs], kept)


def _is_terms(tau: Any) -> bool:
    return isinstance(tau, list | tuple) and isinstance(tau[0], AbstractTerm)


def _with_chains(
    A: np.ndarray, B: np.ndarray, terms: Sequence[AbstractTerm]
) -> tuple[np.ndarray, np.ndarray, list[AbstractTerm]]:
    """The same equation, with states of no delay in A, and with every gamma
    distribution whose shape k is a small integer replaced by a chain of k further
    states for each state that it averages: $z_1' = b\\,(x - z_1)$, and so on."""
    kept: list[AbstractTerm] = []
    couplings = []
    for coupling, term in zip(B, terms):
        k = int(term.shape) if isinstance(term, GammaTerm) else 0
        if isinstance(term, StateTerm) and term.tau == 0:
            A = A + np.pad(coupling, (0, len(A) - len(coupling)))
        elif isinstance(term, GammaTerm) and term.shape == k <= _LONGEST_CHAIN:
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
