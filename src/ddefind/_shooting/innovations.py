r"""The innovations: each value less what was expected from the values before it.

Around the best path the values y are linear in the defects w and in the measurement
noise e, so that their covariance is

$$\Sigma = B\,D\,B^T + R, \qquad B = O\,W^{-1},$$

with the derivatives W of the defects and O of the observed values for the path, and the
variances D and R of defects and measurements. With the Cholesky factor L of $\Sigma$,
in the order of time, the innovations are $L^{-1}(y - \hat y)$, where $\hat y$ is the
path without any disturbance. If the model is right they are independent, with the
variance one."""

import numpy as np
from scipy.linalg import solve_triangular

from .joint_fit import JointFit


def innovations(fit: JointFit) -> tuple[np.ndarray, np.ndarray]:
    """The innovations, [N, k], NaN where nothing was measured; and how they change with
    the free values, [N, k, p]."""
    problem, size, linear = fit.problem, fit.problem.size, fit.linear
    is_in = problem.is_measured
    defects = linear.defect_jacobian.reshape(size, -1)
    values = linear.observed_jacobian[is_in]
    # What moves the path: the defects themselves, each free value, and unit noise.
    process = problem.process_sd(fit.noise).ravel()
    causes = np.column_stack(
        [linear.defects.ravel(), defects[:, size:], np.diag(process)]
    )
    moved = values[:, :size] @ np.linalg.solve(defects[:, :size], causes)
    p = len(fit.theta)
    expected = linear.observed[is_in] - moved[:, 0]
    slopes = values[:, size:] - moved[:, 1 : 1 + p]
    response = moved[:, 1 + p :]
    sd = problem.measurement_sd(fit.noise)[is_in]
    factor = np.linalg.cholesky(response @ response.T + np.diag(sd**2))
    away = np.column_stack([problem.setup.data.x[is_in] - expected, slopes])
    whitened = solve_triangular(factor, away, lower=True)
    result = np.full((*is_in.shape, 1 + p), np.nan)
    result[is_in] = whitened
    return result[..., 0], result[..., 1:]
