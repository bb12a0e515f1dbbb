r"""Minima at kinks: where the sum of squares is not smooth, and no gradient vanishes.

Where a right-hand side has kinks (`abs`, `min`, `where`), so has S, and its minimum may
lie at one. Levenberg-Marquardt then ends there without convergence: the gradient of
one side promises a descent that the other side does not keep. `settle` asks S itself.
It makes finite moves in many directions, of up to a standard error, and further fits
from around the point. Where one of them lowers chi-square, the fit goes on from there;
where none does, the point is a minimum, and the fit has the status `KINK`.

None of this holds where S jumps, as it does if a right-hand side jumps at a threshold
that is learned: between two jumps S says nothing of what lies beyond them. Nor does it
where S is flat in some direction, along which a fit may go on without end. There the
fit stays as it is."""

from dataclasses import replace

import numpy as np

from .._loss.path_costs import Points
from .batches import RefinedFits, refine
from .levenberg_marquardt import KINK, LIMIT, STUCK
from .setup import FitSetup

# The lengths of the moves, in standard errors.
_LENGTHS = np.array([0.01, 0.03, 0.1, 0.3, 1.0])
# Moves that are so short, in standard errors, that only a jump changes chi-square.
_SHORT = 1e-4
# Moves that lower chi-square by no more than this move no estimate that matters.
_LOWER = 0.01
# How often a fit goes on from a better point.
_ROUNDS = 10
# The number of evaluations of a fit from around the point.
_EVALUATIONS = 60
# A rise to both sides is that of a kink if it is so many times what the curvature
# explains, and if a tenth of the way has more than this share of it (a tenth at a kink,
# a hundredth where S is smooth).
_KINKED, _LINEAR = 5.0, 0.04
# Flat are directions with less than this share of the curvature of the steepest, in
# units of each parameter's influence.
_FLAT = 1e-9


def settle(setup: FitSetup, fit: RefinedFits, points: Points) -> RefinedFits:
    """One fit; if it did not converge, then moved to where no finite move lowers its
    sum of squares. It stays as it is if S jumps, or if the moves do not come to an
    end."""
    for _ in range(_ROUNDS):
        has_ended = fit.status[0] not in (STUCK, LIMIT)
        if has_ended or _is_flat(fit) or _jumps(setup, fit, points):
            return fit
        if fit.status[0] == LIMIT and not _has_kink(setup, fit, points):
            return fit
        better = _best_around(setup, fit, points)
        unit = setup.residual_variance(float(fit.loss_above_rounding[0]))
        if better is None or better.loss[0] > fit.loss[0] - _LOWER * unit:
            return replace(fit, status=np.full(1, KINK))
        again = refine(setup, better.theta, points, fit.n)
        better = again if again.loss[0] <= better.loss[0] else better
        fit = replace(
            better, starts=fit.starts, evaluations=fit.evaluations + better.evaluations
        )
    return fit


def _curvature(fit: RefinedFits) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The eigenvalues of the information matrix, scaled to a unit diagonal, its
    eigenvectors as columns, and the scales."""
    information = fit.gram[0, 1:, 1:]
    norms = np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    values, vectors = np.linalg.eigh(information / norms[:, None] / norms)
    return values, vectors, norms


def _is_flat(fit: RefinedFits) -> bool:
    """Whether S is flat in some direction, or not finite."""
    if not np.all(np.isfinite(fit.gram)):
        return True
    values = _curvature(fit)[0]
    return bool(values[0] < _FLAT * values[-1])


def _jumps(setup: FitSetup, fit: RefinedFits, points: Points) -> bool:
    """Whether very short moves change chi-square."""
    unit = setup.residual_variance(float(fit.loss_above_rounding[0]))
    moves = _SHORT * _directions(setup, fit)
    theta = _moved(setup, fit, moves)
    n = np.full(len(theta), fit.n[0])
    loss = refine(setup, theta, points, n, limit=1).loss
    return bool(np.any(np.abs(loss - fit.loss[0]) > _LOWER * unit))


def _best_around(
    setup: FitSetup, fit: RefinedFits, points: Points
) -> RefinedFits | None:
    """The best of all points that moves and short fits from around a fit lead to; None
    if none is finite."""
    directions = _directions(setup, fit)
    moves = (_LENGTHS[:, None, None] * directions).reshape(-1, directions.shape[1])
    theta = _moved(setup, fit, moves)
    n = np.full(len(theta), fit.n[0])
    tried = refine(setup, theta, points, n, limit=1)
    starts = _moved(setup, fit, _principal(setup, fit))
    n = np.full(len(starts), fit.n[0])
    tried = tried.join(refine(setup, starts, points, n, _EVALUATIONS))
    row = int(np.argmin(tried.loss))
    return tried.take([row]) if np.isfinite(tried.loss[row]) else None


def _moved(setup: FitSetup, fit: RefinedFits, moves: np.ndarray) -> np.ndarray:
    return np.clip(fit.theta + moves, setup.lower, setup.upper)


def _principal(setup: FitSetup, fit: RefinedFits) -> np.ndarray:
    """Moves of one standard error to both sides along the principal axes of the
    quadratic approximation, as rows."""
    values, vectors, norms = _curvature(fit)
    unit = setup.residual_variance(float(fit.loss_above_rounding[0]))
    axes = (np.sqrt(unit / values) * vectors).T / norms
    return np.concatenate([axes, -axes])


def _has_kink(setup: FitSetup, fit: RefinedFits, points: Points) -> bool:
    """Whether S rises to both sides like the length of a move, as at a kink, and not
    like its square. On a smooth ridge, along which a fit goes on without end, it does
    not."""
    moves = _principal(setup, fit)
    moves = np.concatenate([_LENGTHS[0] * moves, 0.1 * _LENGTHS[0] * moves])
    theta, n = _moved(setup, fit, moves), np.full(len(moves), fit.n[0])
    unit = setup.residual_variance(float(fit.loss_above_rounding[0]))
    loss = refine(setup, theta, points, n, limit=1).loss
    rise, nearer = (loss - fit.loss[0]).reshape(2, 2, -1).sum(axis=1) / unit
    is_large = rise > _KINKED * 2 * _LENGTHS[0] ** 2
    return bool(np.any(is_large & (nearer > _LINEAR * rise)))


def _directions(setup: FitSetup, fit: RefinedFits) -> np.ndarray:
    """Moves of one standard error in many directions, as rows: along each parameter,
    along the principal axes, down the gradient, by the Gauss-Newton step, and at
    random."""
    principal, p = _principal(setup, fit), fit.theta.shape[1]
    axes = principal[:p]
    information, gradient = fit.gram[0, 1:, 1:], fit.gram[0, 0, 1:]
    unit = setup.residual_variance(float(fit.loss_above_rounding[0]))
    norms = np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    single = np.diag(np.sqrt(unit) / norms)
    random = np.random.default_rng(0).standard_normal((4 * p, p))
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    steepest = -gradient / norms / max(np.linalg.norm(gradient / norms), 1e-300)
    newton = -(axes @ gradient)
    newton /= max(np.linalg.norm(newton), 1e-300)
    return np.concatenate(
        [
            single,
            -single,
            principal,
            random @ axes,
            (steepest * np.sqrt(unit) / norms)[None],
            (newton @ axes)[None],
        ]
    )
