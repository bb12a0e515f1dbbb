"""What a fit does with the coefficients of a smooth history.

The data see the history through one delay only, and do not determine every bend of it.
Each coefficient has therefore a Gaussian prior around zero, a straight line, whose
standard deviation is `_WIDTH` times the spread of the state: all curves of the basis
are equally rough, so that the priors penalise roughness."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._problem.history import Smooth
from .._problem.parameter_names import parameter_arrays
from .._problem.parameters import Parameter, find
from .._problem.priors import Gaussian
from .._problem.problem import Problem

_WIDTH = 1.0
# The length of a smooth history is the delay. With several delays it is this multiple
# of the longest one that a fit with a simpler history finds.
LENGTH = 1.25
_COEFFICIENTS = "history.c"


def with_roughness_priors(
    problem: Problem, settings: Mapping[str, Any], spread: np.ndarray
) -> dict[str, Any]:
    """The settings with priors of the coefficients of a smooth history, unless the user
    has settings of them. `spread` is the spread of each state."""
    settings = dict(settings)
    if not isinstance(problem.history, Smooth):
        return settings
    arrays = parameter_arrays(problem)
    own = set(find(_COEFFICIENTS, arrays).tolist())
    if any(own & set(find(key, arrays).tolist()) for key in settings):
        return settings
    k, d = problem.history.c.shape
    for i in range(d):
        prior = Gaussian(0.0, _WIDTH * float(spread[i]))
        for j in range(k):
            name = _COEFFICIENTS if k * d == 1 else f"{_COEFFICIENTS}[{j},{i}]"
            settings[name] = Parameter(prior=prior)
    return settings
