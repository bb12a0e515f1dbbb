"""The noise of each measured quantity: as given, or estimated from the residuals."""

import numpy as np

from .._data.smoothing import spread
from .._data.study_data import Records
from .batches import RefinedFits
from .degrees_of_freedom import effective_count
from .setup import FitSetup


def given_noise(data: Records) -> np.ndarray | None:
    """The root mean square of each quantity's given standard deviations; None if there
    are none."""
    if data.sd is None:
        return None
    is_measured = np.isfinite(data.x)
    total = np.sum(np.where(is_measured, data.sd, 0.0) ** 2, axis=0)
    return np.sqrt(total / np.maximum(is_measured.sum(axis=0), 1))


def noise_from_residuals(setup: FitSetup, fits: RefinedFits) -> np.ndarray:
    """The standard deviation of each quantity's noise, from the residuals of the first
    of `fits`.

    Weights of networks cost as many degrees of freedom as the data determine of them.
    The degrees of freedom are divided among the quantities in proportion to their
    numbers of values. A quantity with so few values that the model might pass through
    all of them gets the pooled noise of the others, relative to its spread."""
    count = np.isfinite(setup.data.x).sum(axis=0)
    freedom = count * (setup.freedom - effective_weights(setup, fits)) / setup.count
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


def effective_weights(setup: FitSetup, fits: RefinedFits) -> float:
    """How many weights of networks the data determine in the first of `fits`."""
    if not setup.has_networks:
        return 0.0
    priors = setup.model.priors
    assert priors is not None
    return effective_count(fits.gram[0, 1:, 1:], priors.weight, setup.is_weight)
