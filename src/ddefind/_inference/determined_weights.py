"""How many weights of each network the data determine."""

import numpy as np

from .._least_squares.degrees_of_freedom import determined_shares
from .._problem.network_weights import Networks
from .covariance import Uncertainty


def determined_weights(
    uncertainty: Uncertainty, networks: Networks
) -> dict[str, float]:
    """The sum of the shares to which the data determine the weights of each network,
    and not their prior: see `_least_squares/degrees_of_freedom.py`. Networks without a
    prior, and fits without an end, have none."""
    setup, best = uncertainty.setup, uncertainty.search_result.best
    if not setup.has_networks or setup.model.priors is None:
        return {}
    information = best.gram[0, 1:, 1:]
    if not np.all(np.isfinite(information)):
        return {}
    shares = determined_shares(information, setup.model.priors.weight)
    return {
        owner: float(np.sum(shares[list(indices)]))
        for owner, indices in networks.items()
        if np.all(setup.is_weight[list(indices)])
    }
