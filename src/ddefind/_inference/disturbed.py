"""Intervals, tests and predictions of a fit with process noise.

Intervals come from Student's distribution around the estimates, with the covariance of
multiple shooting: it accounts for the disturbances and their unknown size. The tests
judge the innovations, which are independent if the model is right."""

import numpy as np

from .._data.data import Data
from .._search.misfit import Criteria, criteria_of
from .._shooting.process_noise import ProcessNoise, innovations, path_at, rebuild
from .assessment import Assessment
from .covariance import Uncertainty, quantile
from .identifiability import verdicts
from .predict import Prediction
from .profile import Profile
from .residual_tests import ResidualTest, run_tests

# A profile is given at this many values, over twice the width of the interval.
_PROFILE_VALUES = 9


def assess_disturbed(
    uncertainty: Uncertainty, process: ProcessNoise, level: float = 0.95
) -> Assessment:
    """Assess a fit with process noise, with intervals of the given `level`."""
    count = len(uncertainty.theta)
    profiles = tuple(disturbed_profile(uncertainty, j, level) for j in range(count))
    return Assessment(
        profiles=profiles,
        verdicts=tuple(verdicts(uncertainty, profiles, [], {})),
        ties=(),
        fitted=process.fitted,
        checks=test_innovations(uncertainty, process),
        level=level,
    )


def disturbed_profile(uncertainty: Uncertainty, j: int, level: float) -> Profile:
    """Return the profile of free value j: a parabola, since the path is linear around
    the fit. A delay has no negative values in its interval."""
    q = quantile(level, uncertainty.freedom)
    theta, free = uncertainty.theta, uncertainty.setup.model.free
    variance = float(uncertainty.covariance[j, j])
    half = q * np.sqrt(variance)
    low, high = theta[j] - half, theta[j] + half
    if j in free.delays and np.isfinite(low):
        low = max(low, 0.0)
    shares = np.linspace(-2, 2, _PROFILE_VALUES)
    shares = shares if np.isfinite(half) and half > 0 else shares[:1] * 0
    direction = (
        uncertainty.covariance[:, j] / variance if len(shares) > 1 else 0 * theta
    )
    moved = np.where(np.isfinite(half), half, 0.0) * shares
    return Profile(
        name=free.names[j],
        estimate=float(theta[j]),
        quantile=q,
        interval=(float(low), float(high)),
        reached=(float(theta[j] + moved[0]), float(theta[j] + moved[-1])),
        values=theta[j] + moved,
        r=q * np.abs(shares),
        theta=theta + moved[:, None] * direction,
    )


def test_innovations(
    uncertainty: Uncertainty, process: ProcessNoise
) -> tuple[ResidualTest, ...]:
    """Test the residuals one step ahead."""
    setup, data = uncertainty.setup, uncertainty.setup.data
    fit = rebuild(setup, uncertainty.theta, process, uncertainty.search_result.noise)
    directions = innovations(fit)[1] @ uncertainty.covariance_factor
    fitted, residuals = process.fitted, process.residuals
    is_known, freedom = data.sd is not None, uncertainty.freedom
    return tuple(run_tests(data, fitted, residuals, directions, freedom, is_known))


def disturbed_criteria(
    uncertainty: Uncertainty, process: ProcessNoise, free: float
) -> Criteria:
    """Compute the information criteria of a fit with `free` parameters, averaged over
    all paths. The levels of both kinds of noise count as parameters."""
    deviance = -2 * process.log_likelihood
    return criteria_of(deviance, free + process.levels, uncertainty.setup.count)


def predict_disturbed(
    uncertainty: Uncertainty, process: ProcessNoise, times: np.ndarray, level: float
) -> Prediction:
    """Return the path in the data and the expected one beyond, with its band."""
    setup, noise = uncertainty.setup, uncertainty.search_result.noise
    assert isinstance(setup.data, Data)
    fit = rebuild(setup, uncertainty.theta, process, noise)
    mean, sd = path_at(fit, process.is_relative, times)
    noise = np.where(setup.measured, noise, 0.0)
    q = quantile(level, uncertainty.freedom)
    half_width, noisy = q * sd, q * np.hypot(sd, noise)
    return Prediction(
        times,
        setup.data.names,
        mean,
        sd,
        mean - half_width,
        mean + half_width,
        mean - noisy,
        mean + noisy,
        np.ones(mean.shape, bool),
        level,
        (),
        setup.data,
    )
