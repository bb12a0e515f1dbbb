r"""Which fits of a data set are at the same minimum: one rule, for one or many sets.

Fit a is at least as good as fit b. With their sums of squares S, the step d from the
values of a to those of b, the information matrix H at a, and the unit u of chi-square,
they are at the same minimum if

$$|S_b - S_a| < 0.1\,u \quad\text{and}\quad d^T H d < 0.1\,u:$$

they fit equally well, and the quadratic approximation at a says that they should. Two
fits far apart are one answer nevertheless if $|S_b - S_a| < 0.01\,u$ and

- the data leave a direction free, so that they are places on one curve, or
- one is the mirror image of the other: its delays are those of the other in another
  order (`is_mirror_image`).

This compares fits that have converged. While fits are still on their way, a search
drops repetitions: those whose values all `agree`, to 0.1%."""

from collections.abc import Sequence

import numpy as np

# The two limits of the rule, in chi-square, and the share to which values agree.
_SAME, _SAME_ANSWER, _AGREE = 0.1, 0.01, 1e-3


def agree(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether each of the values is about equal to the other one."""
    return np.abs(values - others) <= _AGREE * np.abs(others) + 1e-12


def predicted_rise(gram: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Compute the increase of the sum of squares that its quadratic approximation
    predicts for a step [..., p] from a fit with the normal equations `gram`."""
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.sum(gram[..., 1:, 1:] * step[..., None, :], axis=-1)
        return np.sum(moved * step, axis=-1)


def is_same_answer(
    difference: np.ndarray | float, unit: np.ndarray | float
) -> np.ndarray:
    """Whether two places on one curve, or two mirror images, are one answer."""
    return np.abs(difference) < _SAME_ANSWER * unit


def is_mirror_image(
    theta: np.ndarray, other: np.ndarray, delays: Sequence[int], fixed: np.ndarray
) -> bool:
    """Whether the delays of `theta` are those of the `other` in another order. Further
    values may be exchanged together with them, but those that are `fixed`, as are those
    of a history, must agree."""
    is_delay = np.isin(np.arange(len(theta)), delays)
    free = ~is_delay & ~fixed
    is_moved = not np.all(agree(theta[is_delay], other[is_delay]))
    is_permuted = all(
        np.all(agree(np.sort(theta[group]), np.sort(other[group])))
        for group in (is_delay, free)
    )
    return bool(is_moved and is_permuted and np.all(agree(theta, other)[fixed]))


def first_at_minimum(
    theta: np.ndarray, loss: np.ndarray, gram: np.ndarray, unit: np.ndarray
) -> np.ndarray:
    """Find the minimum of each fit [sets, fits]: the number of the first fit that is at
    the same one; -1 where a fit has no finite sum of squares. Fits are sorted, the best
    first; `unit` [sets] is that of chi-square."""
    first = np.full(loss.shape, -1)
    for row in range(loss.shape[1]):
        is_new = np.isfinite(loss[:, row])
        for other in range(row):
            is_open = is_new & (first[:, other] == other)
            if not is_open.any():
                continue
            rise = predicted_rise(gram[:, other], theta[:, row] - theta[:, other])
            with np.errstate(invalid="ignore"):
                difference = loss[:, row] - loss[:, other]
            joins = is_open & (np.maximum(rise, np.abs(difference)) < _SAME * unit)
            first[joins, row] = other
            is_new &= ~joins
        first[is_new, row] = row
    return first
