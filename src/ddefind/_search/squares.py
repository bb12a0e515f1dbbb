r"""Weighted squares: what a fit makes small whose noise has no model.

With hundreds of free values, the weights of networks, the matrix $J^T J$ takes longer
to add up, point by point, than the equation takes to solve. Then the rows of the
Jacobian J are stored (`StoredRows`), one for each of the M measured values, and LAPACK
solves for a step p. With the diagonal matrices A of the priors and D of the scales, and
$B = A + \lambda D^2$, it solves

$$(J^T J + B)\,p = -g, \qquad g = J^T r + A\,(\theta - m),$$

if there are no more values than rows. Otherwise the smaller system is that of the rows
(Woodbury's identity):

$$p = -B^{-1} g + B^{-1} J^T (I + J B^{-1} J^T)^{-1} J B^{-1} g.$$"""

import math
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_factor, cho_solve

from .._data.smoothing import rough_noise, spread
from .._data.study_data import Records, parts_of
from .._engine.engine import Points
from .._loss.losses import SumOfSquares
from .._util import wording
from .._util.arrays import read, write
from .batches import SURVIVORS_WITH_NETWORKS, RefinedFits, keep_distinct, refine, score
from .levenberg_marquardt import (
    Convergence,
    NormalEquations,
    Priors,
    prior_gram,
    prior_terms,
)
from .misfit import NOISE, AbstractFitted, AbstractMisfit, criteria_of
from .normal_equations import no_equations, normal_equations
from .setup import FitSetup

# The system of the rows is solved with at least this damping, so that it stays accurate
# where a value has no prior.
_LEAST_IN_DUAL = 1e-6
# The c in the scale of values with a prior. With 0.3 network fits take half of the
# evaluations that they take with 1 or with scales of their own.
_SHARE_OF_LARGEST = 0.3
# From this many standard deviations on, a residual counts linearly in a robust model.
_OUTLYING = 1.345


class StoredRows(NamedTuple):
    """The sum of squares and its linearisation at one point, as a table.

    `rows` are [r J] for all weighted residuals, and `side` and `weight` what the priors
    add to J^T r and to the diagonal of J^T J; `corner` is what they add to S."""

    rows: Any  # [M, 1 + p]
    corner: Any
    side: Any  # [p]
    weight: Any  # [p]
    squares: Any  # [k]

    @property
    def S(self) -> jax.Array:
        """The sum of squares."""
        return jnp.sum(self.rows[:, 0] ** 2) + self.corner

    @property
    def is_finite(self) -> jax.Array:
        """Whether all numbers are finite."""
        return jnp.all(jnp.isfinite(self.rows)) & jnp.isfinite(self.corner)

    @property
    def gradient(self) -> jax.Array:
        """J^T r."""
        return self.rows[:, 1:].T @ self.rows[:, 0] + self.side

    @property
    def diagonal(self) -> jax.Array:
        """The diagonal of J^T J."""
        return jnp.sum(self.rows[:, 1:] ** 2, axis=0) + self.weight

    @property
    def scales(self) -> jax.Array:
        r"""D: the root of the diagonal of J^T J. For values with a prior of precision a
        it is $c \sqrt{a R}$, where R is the largest ratio of that diagonal to a: one
        length for all of them. With scales of their own, weights that hardly matter run
        far away, and a fit creeps along a curved valley."""
        diagonal, has_prior = self.diagonal, self.weight > 0
        ratio = diagonal / jnp.where(has_prior, self.weight, 1.0)
        largest = jnp.max(jnp.where(has_prior, ratio, 0.0))
        shared = _SHARE_OF_LARGEST * jnp.sqrt(self.weight * largest)
        return jnp.where(has_prior, shared, jnp.sqrt(diagonal))

    def equations(self, exist: jax.Array) -> NormalEquations:
        """Return the normal equations, infinite where they do not `exist`."""
        gram = self.rows.T @ self.rows
        corner, side = self.corner[None, None], self.side[None]
        gram += jnp.block([[corner, side], [side.T, jnp.diag(self.weight)]])
        return NormalEquations(jnp.where(exist, gram, jnp.inf), self.squares)

    def scaled(self, D: jax.Array, free: jax.Array) -> "ScaledRows":
        """Return J D^-1 for the values that are `free`; zero for the others."""
        J = jnp.where(free, self.rows[:, 1:] / D, 0.0)
        return ScaledRows(J, jnp.where(free, self.weight / D**2, 0.0), free)


class ScaledRows(NamedTuple):
    """The Jacobian and the priors in scaled variables."""

    J: Any  # [M, p]
    weight: Any  # [p]
    free: Any  # [p], boolean

    def solve(self, damping: Any, right: jax.Array) -> jax.Array:
        """Solve the damped equations for a step."""
        M, p = self.J.shape
        B = jnp.where(self.free, self.weight + damping, 1.0)
        if p <= M:
            return _solve(self.J.T @ self.J + jnp.diag(B), right)
        # Values without a prior have a B of nothing but the damping.
        B = jnp.maximum(B, _LEAST_IN_DUAL)
        J_over_B = self.J / B
        inner = _solve(jnp.eye(M) + J_over_B @ self.J.T, J_over_B @ right)
        return right / B - J_over_B.T @ inner

    def curvature(self, step: jax.Array) -> jax.Array:
        """Return step^T (J^T J + A) step."""
        return jnp.sum((self.J @ step) ** 2) + jnp.sum(self.weight * step**2)


def stored_rows(
    rows: jax.Array, squares: jax.Array, priors: Priors | None, theta: jax.Array
) -> StoredRows:
    """Add the priors to the rows [r J] of all residuals."""
    none = jnp.zeros(theta.shape[0])
    added = jnp.zeros(()), none, none
    if priors is not None:
        added = prior_terms(priors, theta)
    return StoredRows(rows, *added, squares)


def _weighted(
    is_robust: bool, points: Points, observed: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the squared residuals of each quantity and the weighted rows [r J]."""
    weight = jnp.asarray(points.weights).ravel()
    values = jnp.asarray(points.values).ravel()
    observed = observed.reshape(-1, observed.shape[-1])
    square, rows = residual_rows(is_robust, weight, values, observed)
    squares = jnp.sum(square.reshape(points.values.shape), axis=0)
    return squares, jnp.where(weight[:, None] > 0, jnp.sqrt(weight)[:, None] * rows, 0)


def residual_rows(
    is_robust: bool, weight: jax.Array, values: Any, observed: jax.Array
) -> tuple[jax.Array, jax.Array]:
    r"""Return the squares of residuals, and their rows [r J], from what is observed.

    In the robust fits that explore for Student's noise the squares of the rows are
    Huber's loss: beyond k standard deviations the residual r is replaced by the root of
    that loss, $\sqrt{k(2|r| - k)}$, and the Jacobian by the derivatives of the root.
    """
    residual = observed[:, 0] - values
    square = jnp.where(weight > 0, residual**2, 0.0)
    rows = jnp.concatenate([residual[:, None], observed[:, 1:]], axis=1)
    if not is_robust:
        return square, rows
    size = jnp.sqrt(weight) * jnp.abs(residual)
    is_outlier = size > _OUTLYING
    safe = jnp.where(is_outlier, size, _OUTLYING)
    root = jnp.sqrt(_OUTLYING * (2 * safe - _OUTLYING))
    first = jnp.where(is_outlier, root / safe, 1.0)
    others = jnp.where(is_outlier, _OUTLYING / root, 1.0)
    is_first = jnp.arange(rows.shape[1]) == 0
    return square, rows * jnp.where(is_first, first[:, None], others[:, None])


def _solve(matrix: jax.Array, right: jax.Array) -> jax.Array:
    return cho_solve(cho_factor(matrix, lower=True), right)


def given_noise(data: Records) -> np.ndarray | None:
    """Return the root mean square of each quantity's given standard deviations."""
    if data.sd is None:
        return None
    is_measured = np.isfinite(data.x)
    total = np.sum(np.where(is_measured, data.sd, 0.0) ** 2, axis=0)
    return np.sqrt(total / np.maximum(is_measured.sum(axis=0), 1))


def noise_from_residuals(setup: FitSetup, fits: RefinedFits) -> np.ndarray:
    """Estimate the standard deviation of each quantity's noise from the first fit.

    Weights of networks cost as many degrees of freedom as the data determine of them.
    The degrees of freedom are divided among the quantities in proportion to their
    numbers of values. A quantity with so few values that the model might pass through
    all of them gets the pooled noise of the others, relative to its spread."""
    count = np.isfinite(setup.data.x).sum(axis=0)
    freedom = (
        count
        * (setup.freedom - setup.effective_weights(fits.gram[0, 1:, 1:]))
        / setup.count
    )
    if setup.has_networks:
        freedom = np.maximum(freedom, 0.1 * count)
    size = spread(setup.data)
    mean_square = fits.squares[0] / np.where(count > 0, freedom, 1.0)
    noise = np.sqrt(np.where(count > 0, mean_square, 1.0))
    few = setup.has_few_values
    if few.any():
        others = setup.measured & ~few
        others = others if others.any() else few
        relative_variance = (noise / size)[others] ** 2
        pooled = np.sqrt(np.average(relative_variance, weights=count[others]))
        noise = np.where(few, pooled * size, noise)
    return np.maximum(noise, 1e-9 * size)


def _reweight(setup: FitSetup, fits: RefinedFits) -> tuple[RefinedFits, Points]:
    """Estimate the noise and repeat the fits, until the noise stays the same."""
    tolerance, most = (
        (1e-2, SURVIVORS_WITH_NETWORKS) if setup.has_networks else (1e-4, 6)
    )
    points, before = None, None
    for _ in range(20):
        best = fits.take([int(np.argmin(score(setup, fits)))])
        noise = noise_from_residuals(setup, best)
        if before is not None and np.all(np.abs(noise / before - 1) < tolerance):
            break
        points = setup.points(noise)
        fits = keep_distinct(setup, fits, most)
        refined = refine(setup, fits.theta, points, setup.steps(fits.theta))
        fits = replace(refined, starts=fits.starts)
        before = noise
    assert points is not None
    return fits, points


# With more free values than this the Jacobian is stored.
_MANY_VALUES = 40
# Convergence of the weights of networks, whose single values mean nothing: along curved
# valleys S becomes lower by ever less.
FOR_NETWORKS = Convergence(reduction=1e-6, hidden=1e-5, slow=2e-5)


@final
class Squares(AbstractMisfit):
    """The weighted sum of squares.

    If it is robust (`is_robust`), large residuals count linearly: see `residual_rows`.
    With many free values it `stores_rows`."""

    is_robust: bool = eqx.field(static=True)
    stores_rows: bool = eqx.field(static=True)

    @classmethod
    def of(cls, values: int, *, is_robust: bool = False) -> "Squares":
        """Return the sum of squares for this number of free values."""
        return cls(is_robust, values > _MANY_VALUES)

    @property
    def is_plain(self) -> bool:
        return not self.stores_rows

    def equations(self, model, theta, points, place, steps, memory):
        rows, end = place

        def add(total: NormalEquations, j, observed):
            weight = read(points.weights, j)
            values = read(points.values, j)
            square, rows = residual_rows(self.is_robust, weight, values, observed)
            products = rows[:, :, None] * rows[:, None, :]
            gram = total.gram + jnp.sum(weight[:, None, None] * products, axis=0)
            return NormalEquations(gram, total.squares + square)

        zero = no_equations(1 + theta.shape[0], jnp.shape(points.values)[1])
        sensitivity = model.sensitivity(theta, steps, end)
        return sensitivity.visit(points, rows, memory, add, zero)

    def linearise(self, model, theta, points, steps, memory):
        if not self.stores_rows:
            return normal_equations(model, theta, points, steps, memory)
        observed, memory = model.experiments.observed(
            model, theta, points, steps, memory
        )
        squares, rows = _weighted(self.is_robust, points, observed)
        return stored_rows(rows, squares, model.priors, theta), memory

    def matched(self, model, theta, target, priors, start, visit):
        def gram_of(part, local, _, target, memory):
            def add(gram, j, rows):
                return gram + jnp.sum(rows[:, :, None] * rows[:, None, :], axis=0)

            gram = visit(
                part, local, target, add, add(0.0, None, start(part, local, target))
            )
            return NormalEquations(gram, jnp.zeros(1)), memory

        def rows_of(part, local, target):
            first = start(part, local, target)
            table = jnp.zeros((target.t.shape[0], *first.shape))
            slopes = visit(part, local, target, write, table)
            return jnp.concatenate([first, slopes.reshape(-1, first.shape[1])])

        if self.stores_rows:
            rows = model.experiments.stacked(model, theta, rows_of, target)
            return stored_rows(rows, jnp.zeros(1), priors, theta)
        total, _ = model.experiments.sum(model, theta, None, 1, gram_of, target, ())
        if priors is None:
            return total
        return total._replace(gram=total.gram + prior_gram(priors, theta))

    def without_noise(self, sensitivity, theta):
        return sensitivity

    def negligible(self, points, rounding):
        values = jnp.asarray(points.values)
        return rounding * jnp.sum(points.weights * values**2), None

    def convergence(self, priors, by_steps):
        return FOR_NETWORKS if self.stores_rows and priors is not None else by_steps

    # The setup of a fit.

    def joined(self, others, free, data):
        return Squares.of(len(free.names), is_robust=self.is_robust)

    def points(self, setup, noise=None):
        each = [SumOfSquares().prepare(part).points for part in parts_of(setup.data)]
        points = Points(*map(np.concatenate, zip(*each)))
        if setup.data.sd is not None or noise is None:
            return points
        return points._replace(weights=points.weights / noise**2)

    def explored(self, setup):
        return setup

    def natural_sizes(self, setup):
        return np.ones(len(setup.lower)) if setup.units is None else setup.units.typical

    def knows_variance(self, setup):
        return setup.data.sd is not None

    # The search.

    def margin(self, setup, lowest, factor):
        return (factor - 1) * lowest

    def looks(self, search):
        setup, given = search.setup, given_noise(search.setup.data)
        noise = rough_noise(setup.data) if given is None else given
        points = setup.points(noise)
        looks = (
            search.explore_networks(points, noise)
            if setup.has_networks
            else search.explore(setup, points, noise)
        )
        for fits, start_count, phase in looks:
            yield search.result(fits, points, noise, start_count)
            search.report(phase, fits)
        if given is None and setup.needs_noise:
            fits, points = _reweight(setup, fits)
            yield search.result(fits, points, noise, start_count)
            search.report(NOISE, fits)
        return fits, points, start_count

    def noise_levels(self, setup, fits):
        given = given_noise(setup.data)
        return noise_from_residuals(setup, fits) if given is None else given

    # The noise of a fit: residuals, simulated and new values, criteria.

    def knows_noise(self, setup):
        return setup.data.sd is not None

    def excess(self, fit, q):
        return q

    def residuals(self, fit, fitted):
        return (fit.setup.data.x - fitted) / _noise_sd(fit)

    def sizes(self, fit, fitted):
        return np.broadcast_to(_noise_sd(fit), fitted.shape)

    def simulated(self, fit, fitted, n, kind, random):
        """The noise is Gaussian, or drawn from the residuals of the same quantity.
        Since the fit absorbs a part of the noise, residuals are scaled up by the root
        of values / degrees of freedom."""
        times, _, weights = fit.search_result.points
        sd = _noise_sd(fit)
        sd = np.where(np.isfinite(sd), sd, 1.0)  # where nothing is measured
        shape = (n, *fitted.shape)
        if kind == "parametric":
            noise = sd * random.standard_normal(shape)
        else:
            noise = np.zeros(shape)
            inflation = np.sqrt(fit.setup.count / fit.freedom)
            residuals = (fit.setup.data.x - fitted) / sd
            for column, residual in enumerate(residuals.T):
                measured = residual[np.isfinite(residual)]
                if len(measured):
                    drawn = random.choice(measured - measured.mean(), (n, len(fitted)))
                    noise[..., column] = inflation * drawn
            noise = sd * noise
        return Points(
            np.broadcast_to(times, (n, *times.shape)),
            fitted + noise,
            np.broadcast_to(weights, (n, *weights.shape)),
        )

    def new_sizes(self, fit, mean):
        return np.where(fit.setup.measured, fit.search_result.noise, 0.0)

    def new_ends(self, fit, mean, sd, q):
        noisy = q * np.hypot(sd, self.new_sizes(fit, mean))
        return mean - noisy, mean + noisy

    def without_priors(self, fit, noise):
        setup, best = fit.setup, fit.search_result.best
        if setup.weights_are_absolute:
            return float(best.loss[0]) - setup.prior_penalty(best.theta[0])
        squares = best.squares[0]
        return float(squares.sum() if len(squares) == 1 else np.sum(squares / noise**2))

    def deviances(self, setup, fits):
        if setup.weights_are_absolute:
            return fits.loss
        count = np.isfinite(setup.data.x).sum(axis=0)[setup.measured]
        mean = fits.squares[:, setup.measured] / count
        return np.sum(count * np.log(np.maximum(mean, 1e-300)), axis=1)

    def comparable(self, setup, fits):
        return self.deviances(setup, fits)

    def criteria(self, fit, fitted):
        data, free = fit.setup.data, fit.setup.free_count(fit.information)
        residuals = data.x - fitted
        deviance, levels = 0.0, 0
        for column in np.flatnonzero(np.isfinite(residuals).any(axis=0)):
            here = np.isfinite(residuals[:, column])
            r, x = residuals[here, column], data.x[here, column]
            if data.sd is not None:
                deviance += _deviance(r, data.sd[here, column])
            else:
                least = 1e-15 * np.sqrt(np.mean(x**2)) + 1e-150  # Never zero.
                sd = float(np.sqrt(np.mean(r**2)))
                deviance += _deviance(r, max(sd, least))
                levels += 1
        return criteria_of(deviance, free + levels, int(np.isfinite(residuals).sum()))

    # Words.

    minimised: ClassVar[str] = "the sum of squares"
    kind_of_residuals: ClassVar[str] = "data minus curve, in units of the noise"
    not_normal: ClassVar[tuple[str, str]] = (
        "are not Gaussian",
        "intervals are approximate",
    )

    def title(self, setup):
        return ""

    def about_noise(self, setup, degrees, sizes, chi_square):
        values = f"{setup.count} values, {degrees} of freedom"
        if setup.data.sd is None:
            return f"{values}; noise (estimated): {sizes}."
        return f"{values}{chi_square}; noise (given): {sizes}."

    def chi_square_is_off(self, setup, *, is_large):
        return f"the given noise is too {'small' if is_large else 'large'}"

    def about_outlier(self, setup, quantity):
        if setup.data.sd is not None:
            return ""
        return f", or fit with {wording.noise('student')}"

    def about_growth(self, setup, quantity):
        is_known = setup.data.sd is not None
        given = wording.standard_deviations([quantity])
        remedy = f"Give {given} that grows {'more ' if is_known else ''}with the level"
        other, size = "", "the given" if is_known else "one"
        if np.nanmin(setup.data.x[:, setup.data.names.index(quantity)]) > 0:
            one, another = wording.noise("proportional"), wording.noise("lognormal")
            other = f", or fit with {one} or {another}"
        about = f"intervals, which assume noise of {size} size, are approximate. "
        return about + remedy, other


def _noise_sd(fit: AbstractFitted) -> np.ndarray:
    """Return the standard deviation of the noise, given with the data or estimated."""
    given = fit.setup.data.sd
    return fit.search_result.noise if given is None else given


def _deviance(r: np.ndarray, sd: np.ndarray | float) -> float:
    """Compute minus two log-likelihoods of residuals."""
    constant = math.sqrt(2 * math.pi)
    return float(np.sum((np.abs(r) / sd) ** 2 + 2 * np.log(sd * constant)))
