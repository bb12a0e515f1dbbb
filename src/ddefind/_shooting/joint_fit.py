r"""The path and the free values together, by least squares.

With the process noise $\sigma_i$ of each state and the measurement noise $\rho_j$ of
each quantity known, the path x and the free values $\theta$ minimise

$$S(x, \theta) = \sum_{k,i} \frac{w_{ki}^2}{\sigma_i^2\, g_{ki}^2\, (t_{k+1} - t_k)}
  + \sum_{l,j} \frac{(y_j(t_l) - \hat y_{lj})^2}{\rho_j^2} + \text{priors},$$

where the defects w are those of `defects.py`. The factors g are one, or the level of
the state where the noise is relative to it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .._least_squares.prior_equations import Priors
from .._least_squares.setup import FitSetup
from .defects import Linearisation, linearise
from .nodes import Nodes

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

    That of the process noise is a share of the level. Which of them belongs to which
    state and quantity is known to the `JointProblem`."""

    log_sd: np.ndarray
    level: np.ndarray


@final
@dataclass(frozen=True)
class JointProblem:
    """What the fits of a path share.

    `process` has for each state the number of its standard deviation in `log_sd`, and
    `measurement` that of each quantity, or -1 where the noise is given."""

    setup: FitSetup
    nodes: Nodes
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
        """The standard deviation of each defect, [n, d]."""
        return np.exp(noise.log_sd[self.process]) * noise.level * self.root_steps

    def measurement_sd(self, noise: Noise) -> np.ndarray:
        """The standard deviation of each value, [N, k]."""
        given = self.setup.data.sd
        if given is not None:
            return np.asarray(given)
        sd = np.exp(noise.log_sd[self.measurement])
        return np.broadcast_to(sd, self.is_measured.shape)

    @cached_property
    def groups(self) -> np.ndarray:
        """For each residual, defects first, the number of its standard deviation; -1
        where that is given."""
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
    linear: Linearisation
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
        """The states at all nodes, that at time zero first, [n + 1, d]."""
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
        """How the best path moves with the free values, dx / dtheta, [n d, p]."""
        size = self.problem.size
        return -cho_solve(self.state_factor, self.information[:size, size:])

    @cached_property
    def theta_information(self) -> np.ndarray:
        """The information on the free values, the path being fitted again."""
        size = self.problem.size
        cross = self.information[:size, size:]
        return self.information[size:, size:] + cross.T @ self.state_response

    @property
    def log_determinant(self) -> float:
        """Of the information on the path."""
        return 2 * float(np.log(np.diagonal(self.state_factor[0])).sum())


def ridged(information: np.ndarray, size: int) -> np.ndarray:
    """The information with a ridge on the free values."""
    index = np.arange(size, len(information))
    information = information.copy()
    information[index, index] *= 1 + _RIDGE
    information[index, index] += 1e-300
    return information


def evaluate(
    problem: JointProblem, noise: Noise, x: np.ndarray, theta: np.ndarray
) -> JointFit:
    """The residuals and their derivatives at a path and free values. They may not be
    finite where a step went too far."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _evaluate(problem, noise, x, theta)


def _evaluate(
    problem: JointProblem, noise: Noise, x: np.ndarray, theta: np.ndarray
) -> JointFit:
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
        problem,
        noise,
        x,
        theta,
        linear,
        np.concatenate(rows),
        np.concatenate(columns),
    )


def _prior_rows(priors: Priors, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weighted deviations from the priors, and their derivatives."""
    size = np.where(priors.log, np.where(theta > 0, theta, np.nan), 1.0)
    root = np.sqrt(priors.weight)
    value = np.where(priors.log, np.log(size), theta)
    return root * (value - priors.mean), root / size


def fit_path(start: JointFit, drift: np.ndarray, is_held: bool = False) -> JointFit:
    """The minimum of S + `drift` . theta that descent from `start` leads to, within the
    bounds of the free values (Levenberg-Marquardt). If `is_held`, the free values stay
    as they are."""
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
    """The fit after a damped step; None if rounding errors forbid it."""
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
    """The same path and free values with other noise."""
    return evaluate(fit.problem, noise, fit.x, fit.theta)
