r"""The likelihood of the noise, and of the free values, with all paths averaged.

The path is integrated out by Laplace's method: around the best path the exponent is
quadratic, so that

$$-2 \log L(\theta, \sigma, \rho) = \min_x S(x, \theta) + \log\det H_{xx}
  + \sum_{k,i} \log(\sigma_i^2 g_{ki}^2 h_k) + \sum_{l,j} \log \rho_j^2,$$

with the information H = J^T J at the best path. For linear equations this is exact.

The determinant depends on theta, too: a fit that minimised S alone would prefer free
values with which the data say little about the path."""

from dataclasses import replace
from typing import NamedTuple, final

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from .joint_fit import JointFit, Noise, evaluate, ridged

# The share of a standard error by which free values are moved to differentiate.
_DIFFERENCE = 0.3
# By this much the logarithms of the noise are moved to differentiate.
_NOISE_DIFFERENCE = 0.05
# The search for the noise begins at least at exp(-1) times the first levels.
_RAISED = 1.0
# No standard deviation of a logarithm of the noise is taken to be larger.
_LONGEST_AXIS = 1.0


def determinant_slope(fit: JointFit) -> np.ndarray:
    """The derivatives of log det H_xx for the free values, the path following them."""
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
    """Of the free values and the noise of a fit, up to a constant."""
    problem = fit.problem
    process = problem.process_sd(fit.noise)
    measured = problem.measurement_sd(fit.noise)[problem.is_measured]
    scale = 2 * np.log(process).sum() + 2 * np.log(measured).sum()
    return fit.loss + fit.log_determinant + float(scale)


@final
class NoiseLikelihood:
    r"""The likelihood of the noise, with everything linear around a fit, and with the
    free values integrated out like the path (restricted maximum likelihood).

    The standard deviations of the process noise have a uniform prior, so that the
    density of their logarithms has one more factor $\sigma$: a short record may say
    that the process noise is small, but not that there is none."""

    def __init__(self, fit: JointFit):
        self.fit = fit
        groups, count = fit.problem.groups, len(fit.noise.log_sd)
        self.parts = [_Part(fit, groups == g) for g in (-1, *range(count))]
        self.is_process = np.isin(np.arange(count), fit.problem.process)

    def at(self, log_sd: np.ndarray) -> "NoisePoint | None":
        """Everything at other noise; None if the noise is not possible."""
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
        """The most likely noise between the bounds of its logarithms. Levels that are
        far below the `first` ones are raised to begin with: where noise has become
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
        """The covariance of the free values, averaged over the noise levels that the
        data allow.

        Along each axis of the likelihood's curvature the noise is moved by up to two
        standard deviations. Each place counts with its likelihood, and adds the
        covariance there and the square of how far the estimates move."""
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
        """The directions of the curvature at the most likely noise, each with the
        length of its standard deviation."""
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
    """At other noise: minus two log-likelihoods and its derivatives for the logarithms
    of the noise; the step of the free values from the fit, and their covariance."""

    value: float
    slopes: np.ndarray
    step: np.ndarray
    covariance: np.ndarray


@final
class _Part:
    """What the residuals with one standard deviation add to the normal equations."""

    def __init__(self, fit: JointFit, is_in: np.ndarray):
        rows, jacobian = fit.rows[is_in], fit.jacobian[is_in]
        self.count = len(rows)
        self.loss = float(rows @ rows)
        self.gradient = jacobian.T @ rows
        self.gram = jacobian.T @ jacobian
