r"""The path and the free values together, by least squares.

With the process noise $\sigma_i$ of each state and the measurement noise $\rho_j$ of
each quantity known, the path x and the free values $\theta$ minimise

$$S(x, \theta) = \sum_{k,i} \frac{w_{ki}^2}{\sigma_i^2\, g_{ki}^2\, (t_{k+1} - t_k)}
  + \sum_{l,j} \frac{(y_j(t_l) - \hat y_{lj})^2}{\rho_j^2} + \text{priors},$$

with the defects w of `defects.py`. The factors g are one, or the level of the state if
the noise is relative to it.

For the likelihood of the noise and of the free values the path is integrated out by
Laplace's method: around the best path the exponent is quadratic, so that

$$-2 \log L(\theta, \sigma, \rho) = \min_x S(x, \theta) + \log\det H_{xx}
  + \sum_{k,i} \log(\sigma_i^2 g_{ki}^2 h_k) + \sum_{l,j} \log \rho_j^2,$$

with the information H = J^T J at the best path. For linear equations this is exact.

The determinant depends on theta, too: a fit that minimised S alone would prefer free
values with which the data hardly determine the path."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from .._search.levenberg_marquardt import Priors
from .._search.setup import FitSetup
from .defects import LinearisedDefects, PathNodes, linearise

_MOST_ITERATIONS = 60
# A step that lowers the objective by less than this ends the fit.
_NEGLIGIBLE = 1e-4
_LARGEST_DAMPING = 1e10
# This share of its diagonal is added to the information of the free values, so that
# a direction that the data do not determine has a finite variance.
_RIDGE = 1e-12


@final
@dataclass(frozen=True)
class Noise:
    """Both kinds of noise: the logarithms `log_sd` of unknown standard deviations, and
    `level`, the factors g of the process noise, [n, d].

    Process noise is a share of the level. The `JointProblem` says which standard
    deviation belongs to which state and quantity."""

    log_sd: np.ndarray
    level: np.ndarray


@final
@dataclass(frozen=True)
class JointProblem:
    """The parts that the fits of a path share.

    `process` has for each state the number of its standard deviation in `log_sd`;
    `measurement` has it for each quantity, -1 where the noise is given."""

    setup: FitSetup
    nodes: PathNodes
    process: np.ndarray
    measurement: np.ndarray

    @cached_property
    def root_steps(self) -> np.ndarray:
        """The square root of each step, [n, 1]."""
        return np.sqrt(np.diff(self.nodes.t))[:, None]

    @cached_property
    def is_measured(self) -> np.ndarray:
        """Which values were measured, [N, k]."""
        return np.isfinite(self.setup.data.x)

    @property
    def size(self) -> int:
        """The number of unknown states."""
        return (len(self.nodes.t) - 1) * len(self.process)

    def process_sd(self, noise: Noise) -> np.ndarray:
        """Return the standard deviation of each defect, [n, d]."""
        return np.exp(noise.log_sd[self.process]) * noise.level * self.root_steps

    def measurement_sd(self, noise: Noise) -> np.ndarray:
        """Return the standard deviation of each value, [N, k]."""
        given = self.setup.data.sd
        if given is not None:
            return np.asarray(given)
        sd = np.exp(noise.log_sd[self.measurement])
        return np.broadcast_to(sd, self.is_measured.shape)

    @cached_property
    def groups(self) -> np.ndarray:
        """The number of the standard deviation of each residual, defects first; -1
        where it is given."""
        defects = np.tile(self.process, len(self.nodes.t) - 1)
        values = np.broadcast_to(self.measurement, self.is_measured.shape)
        groups = [defects, values[self.is_measured]]
        if self.setup.model.priors is not None:
            groups.append(np.full(len(self.setup.lower), -1))
        return np.concatenate(groups)


@final
@dataclass(frozen=True)
class JointFit:
    """A path with its free values, and everything that is linear around it.

    `rows` are the weighted residuals of defects, data and priors, and `jacobian` their
    derivatives, with the noise that the path was fitted with."""

    problem: JointProblem
    noise: Noise
    x: np.ndarray
    theta: np.ndarray
    linear: LinearisedDefects
    rows: np.ndarray
    jacobian: np.ndarray

    @property
    def loss(self) -> float:
        """S, infinite where it is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            loss = float(self.rows @ self.rows)
        is_finite = np.isfinite(loss) and np.all(np.isfinite(self.jacobian))
        return loss if is_finite else np.inf

    @property
    def states(self) -> np.ndarray:
        """The states at all nodes, from time zero on, [n + 1, d]."""
        return np.concatenate([self.linear.start[None], self.x])

    @cached_property
    def information(self) -> np.ndarray:
        """J^T J over all unknowns, the free values last."""
        return ridged(self.jacobian.T @ self.jacobian, self.problem.size)

    @cached_property
    def state_factor(self):
        """The Cholesky factor of the information on the path alone."""
        size = self.problem.size
        return cho_factor(self.information[:size, :size], lower=True)

    @property
    def is_usable(self) -> bool:
        """Whether the information on the path is finite, and positive definite in spite
        of rounding errors."""
        try:
            return bool(np.isfinite(self.loss) and np.isfinite(self.log_determinant))
        except (np.linalg.LinAlgError, ValueError):
            return False

    @cached_property
    def state_response(self) -> np.ndarray:
        """The derivatives of the best path for the free values, [n d, p]."""
        size = self.problem.size
        return -cho_solve(self.state_factor, self.information[:size, size:])

    @cached_property
    def theta_information(self) -> np.ndarray:
        """The information on the free values if the path follows them."""
        size = self.problem.size
        cross = self.information[:size, size:]
        return self.information[size:, size:] + cross.T @ self.state_response

    @property
    def log_determinant(self) -> float:
        """The logarithm of the determinant of the information on the path."""
        return 2 * float(np.log(np.diagonal(self.state_factor[0])).sum())


def ridged(information: np.ndarray, size: int) -> np.ndarray:
    """Return the information with a ridge on the free values."""
    index = np.arange(size, len(information))
    information = information.copy()
    information[index, index] *= 1 + _RIDGE
    information[index, index] += 1e-300
    return information


@np.errstate(over="ignore", invalid="ignore")
def evaluate(
    problem: JointProblem, noise: Noise, x: np.ndarray, theta: np.ndarray
) -> JointFit:
    """Return the residuals and their derivatives at a path and free values. They may
    not be finite where a step went too far."""
    setup, is_in = problem.setup, problem.is_measured
    linear = linearise(setup.model, problem.nodes, x, theta)
    process = problem.process_sd(noise)
    measured = problem.measurement_sd(noise)[is_in]
    data = np.where(is_in, setup.data.x, 0.0)
    rows = [
        (linear.defects / process).ravel(),
        (linear.observed - data)[is_in] / measured,
    ]
    width = linear.defect_jacobian.shape[-1]
    columns = [
        (linear.defect_jacobian / process[..., None]).reshape(-1, width),
        linear.observed_jacobian[is_in] / measured[:, None],
    ]
    if setup.model.priors is not None:
        row, slope = _prior_rows(setup.model.priors, theta)
        rows.append(row)
        columns.append(np.pad(np.diag(slope), ((0, 0), (width - len(theta), 0))))
    return JointFit(
        problem, noise, x, theta, linear, np.concatenate(rows), np.concatenate(columns)
    )


def _prior_rows(priors: Priors, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted deviations from the priors, and their derivatives."""
    size = np.where(priors.log, np.where(theta > 0, theta, np.nan), 1.0)
    root = np.sqrt(priors.weight)
    value = np.where(priors.log, np.log(size), theta)
    return root * (value - priors.mean), root / size


def fit_path(start: JointFit, drift: np.ndarray, is_held: bool = False) -> JointFit:
    """Descend from `start` to a minimum of S + `drift` . theta within the bounds of the
    free values (Levenberg-Marquardt). If `is_held`, the free values stay."""
    fit, damping = start, 1e-3
    setup = fit.problem.setup
    for _ in range(_MOST_ITERATIONS):
        gradient = fit.jacobian.T @ fit.rows
        slope = gradient[fit.problem.size :]
        slope += drift / 2
        outwards = ((fit.theta <= setup.lower) & (slope > 0)) | (
            (fit.theta >= setup.upper) & (slope < 0)
        )
        free = np.ones(len(gradient), bool)
        free[fit.problem.size :] = ~outwards & (not is_held)
        before, growth = _objective(fit, drift), 2.0
        trial = None
        while damping < _LARGEST_DAMPING:
            trial = _trial(fit, gradient, free, damping)
            if trial is not None and _objective(trial, drift) < before:
                break
            trial, damping, growth = None, damping * growth, 2 * growth
        if trial is None:
            break
        fit, damping = trial, max(damping / 5, 1e-12)
        if before - _objective(fit, drift) < _NEGLIGIBLE:
            break
    return fit


def _objective(fit: JointFit, drift: np.ndarray) -> float:
    return fit.loss + float(drift @ fit.theta)


def _trial(
    fit: JointFit, gradient: np.ndarray, free: np.ndarray, damping: float
) -> JointFit | None:
    """Return the fit after a damped step; None if rounding errors forbid it."""
    information = fit.information[np.ix_(free, free)]
    index = np.arange(len(information))
    information[index, index] *= 1 + damping
    step = np.zeros(len(gradient))
    try:
        step[free] = -cho_solve(cho_factor(information), gradient[free])
    except (np.linalg.LinAlgError, ValueError):
        return None
    size, setup = fit.problem.size, fit.problem.setup
    theta = np.clip(fit.theta + step[size:], setup.lower, setup.upper)
    x = fit.x + step[:size].reshape(fit.x.shape)
    return evaluate(fit.problem, fit.noise, x, theta)


def with_noise(fit: JointFit, noise: Noise) -> JointFit:
    """Return the same path and free values with other noise."""
    return evaluate(fit.problem, noise, fit.x, fit.theta)


# Differences for derivatives: of free values as a share of their standard errors, and
# of the logarithms of the noise.
_DIFFERENCE, _NOISE_DIFFERENCE = 0.3, 0.05
# The search for the noise begins at least at exp(-1) times the first levels.
_RAISED = 1.0
# The largest standard deviation of a logarithm of the noise that is used.
_LONGEST_AXIS = 1.0


def determinant_slope(fit: JointFit) -> np.ndarray:
    """Return the derivatives of log det H_xx for free values that the path follows."""
    errors = np.sqrt(np.diagonal(np.linalg.pinv(fit.theta_information, hermitian=True)))
    setup = fit.problem.setup
    slope = np.zeros(len(fit.theta))
    for j, error in enumerate(errors):
        size = _DIFFERENCE * min(error, 0.1 * abs(fit.theta[j]) + 1e-12)
        ends, logs = [], []
        for sign in (-1, 1):
            theta = fit.theta.copy()
            theta[j] = np.clip(theta[j] + sign * size, setup.lower[j], setup.upper[j])
            moved = (theta[j] - fit.theta[j]) * fit.state_response[:, j]
            at = evaluate(
                fit.problem, fit.noise, fit.x + moved.reshape(fit.x.shape), theta
            )
            ends.append(theta[j])
            logs.append(at.log_determinant if at.is_usable else np.nan)
        if ends[1] > ends[0] and np.all(np.isfinite(logs)):
            slope[j] = (logs[1] - logs[0]) / (ends[1] - ends[0])
    return slope


def minus_two_log_likelihood(fit: JointFit) -> float:
    """Return minus two log-likelihoods of a fit, up to a constant."""
    problem = fit.problem
    process = problem.process_sd(fit.noise)
    measured = problem.measurement_sd(fit.noise)[problem.is_measured]
    scale = 2 * np.log(process).sum() + 2 * np.log(measured).sum()
    return fit.loss + fit.log_determinant + float(scale)


@final
class NoiseLikelihood:
    r"""The likelihood of the noise, linearised around a fit, with the free values
    integrated out like the path (restricted maximum likelihood).

    The standard deviations of the process noise have a uniform prior, so that the
    density of their logarithms has one more factor $\sigma$: a short record may show
    that the process noise is small, but not that there is none."""

    def __init__(self, fit: JointFit):
        self.fit = fit
        groups, count = fit.problem.groups, len(fit.noise.log_sd)
        self.parts = [_Part(fit, groups == g) for g in (-1, *range(count))]
        self.is_process = np.isin(np.arange(count), fit.problem.process)

    def at(self, log_sd: np.ndarray) -> "NoisePoint | None":
        """Return the likelihood at other noise; None if the noise is not possible."""
        weights = np.exp(-2 * np.append(0.0, log_sd - self.fit.noise.log_sd))
        grams = sum(w * part.gram for w, part in zip(weights, self.parts))
        information = ridged(np.asarray(grams), self.fit.problem.size)
        gradient = sum(w * part.gradient for w, part in zip(weights, self.parts))
        try:
            factor = cho_factor(information, lower=True)
        except (np.linalg.LinAlgError, ValueError):
            return None
        inverse = cho_solve(factor, np.eye(len(information)))
        step = -inverse @ gradient
        value = 2 * np.log(np.diagonal(factor[0])).sum() + gradient @ step
        slopes = []
        for weight, part in zip(weights, self.parts):
            rest = part.loss + 2 * part.gradient @ step + step @ part.gram @ step
            value += weight * part.loss
            used = weight * (rest + np.sum(inverse * part.gram))
            slopes.append(2 * (part.count - used))
        counts = np.array([part.count for part in self.parts[1:]])
        value += 2 * np.sum((counts - self.is_process) * log_sd)
        size = self.fit.problem.size
        return NoisePoint(
            float(value),
            np.array(slopes[1:]) - 2 * self.is_process,
            step[size:],
            inverse[size:, size:],
        )

    def best(self, first: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Noise:
        """Return the most likely noise between the bounds of its logarithms. The search
        raises levels that are far below the `first` ones: where noise has become
        negligible, the likelihood is flat."""

        def objective(log_sd: np.ndarray) -> tuple[float, np.ndarray]:
            point = self.at(log_sd)
            if point is None:
                return 1e300, np.zeros_like(log_sd)
            return point.value, point.slopes

        found = minimize(
            objective,
            np.clip(np.maximum(self.fit.noise.log_sd, first - _RAISED), lower, upper),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(lower, upper)),
            options={"maxiter": 40, "ftol": 1e-9},
        )
        return replace(self.fit.noise, log_sd=found.x)

    def covariance(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Return the covariance of the free values, averaged over the noise levels that
        the data allow.

        Along each axis of the likelihood's curvature the noise is moved by up to two
        standard deviations. Each place counts with its likelihood, and adds the
        covariance there and the square of the move of the estimates."""
        centre = self.fit.noise.log_sd
        here = self.at(centre)
        assert here is not None
        inside = (centre > lower + 1e-6) & (centre < upper - 1e-6)
        total = here.covariance.copy()
        for direction in self._axes(centre, inside):
            weights, spreads = [1.0], [here.covariance]
            for place in (-2.0, -1.0, 1.0, 2.0):
                log_sd = np.clip(centre + place * direction, lower, upper)
                point = self.at(log_sd)
                if point is None:
                    continue
                weights.append(np.exp(-0.5 * max(point.value - here.value, 0.0)))
                moved = point.step - here.step
                spreads.append(point.covariance + np.outer(moved, moved))
            mean = np.average(spreads, axis=0, weights=weights)
            total += mean - here.covariance
        return total

    def _axes(self, centre: np.ndarray, inside: np.ndarray) -> list[np.ndarray]:
        """Return the directions of the curvature at the most likely noise, each with
        the length of its standard deviation."""
        index = np.flatnonzero(inside)
        if not len(index):
            return []
        curvature = np.zeros((len(index), len(index)))
        for row, j in enumerate(index):
            ends = [centre.copy(), centre.copy()]
            ends[0][j] -= _NOISE_DIFFERENCE
            ends[1][j] += _NOISE_DIFFERENCE
            low, high = (self.at(end) for end in ends)
            if low is None or high is None:
                return []
            rise = (high.slopes - low.slopes)[index] / (2 * _NOISE_DIFFERENCE)
            curvature[row] = rise / 2
        values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
        lengths = 1 / np.sqrt(np.maximum(values, _LONGEST_AXIS**-2))
        axes = np.zeros((len(index), len(centre)))
        axes[:, index] = (vectors * lengths).T
        return list(axes)


class NoisePoint(NamedTuple):
    """Minus two log-likelihoods at other noise, and its derivatives for the logarithms
    of the noise; the step of the free values from the fit, and their covariance."""

    value: float
    slopes: np.ndarray
    step: np.ndarray
    covariance: np.ndarray


@final
class _Part:
    """The part of the normal equations from residuals with one standard deviation."""

    def __init__(self, fit: JointFit, is_in: np.ndarray):
        rows, jacobian = fit.rows[is_in], fit.jacobian[is_in]
        self.count = len(rows)
        self.loss = float(rows @ rows)
        self.gradient = jacobian.T @ rows
        self.gram = jacobian.T @ jacobian
