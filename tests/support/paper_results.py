"""Results of the paper's experiments that need no fits."""

import numpy as np

from ddefind.paper import EXPERIMENTS
from ddefind.paper._run import LevelResults, rounded


def made_up(model="exponential", noise=0.3, repeats=4, seed=0, protocol="published"):
    """Results around the paper's own means at noise 0.3."""
    experiment = EXPERIMENTS[model]
    random = np.random.default_rng(seed)
    printed = experiment.published(0.3)
    assert printed is not None
    centre = printed.mean
    estimates = centre + 0.01 * random.standard_normal((repeats, len(centre)))
    estimates = np.vectorize(rounded)(estimates)
    return LevelResults(
        experiment, noise, protocol, seed, estimates, {"finished": repeats}, 1.0
    )
