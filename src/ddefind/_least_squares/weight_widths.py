"""How wide the prior of each weight of a network is.

The inputs and the outputs of a network are in units of the data, so that weights of
about one can do everything. With a width of one, the bends of a function of one
variable are made too weak, and the delay is biased; with a width of two, a function of
several variables has more freedom than usual data can take from it, and the intervals
of delays become too narrow. Therefore the first layer of a network with n inputs has
the width 2 / n, but not less than one half, and all other weights have the width 1. A
history, which may bend several times within one delay, has the width 3."""

import re

import numpy as np

from .._problem.free_parameters import FreeParameters

_OF_ONE_INPUT, _OF_HISTORY, _LEAST = 2.0, 3.0, 0.5
_FIRST_LAYER = re.compile(r"(.*)\.(weights|biases)\[0\]")


def weight_widths(free: FreeParameters, weights: list[int]) -> np.ndarray:
    """The standard deviation of the prior of each of the free values `weights`."""
    widths = np.ones(len(free.names))
    arrays = {array.name: array for array in free.arrays}
    for array in free.arrays:
        found = _FIRST_LAYER.fullmatch(array.name)
        if found is None or f"{found[1]}.weights[1]" not in arrays:
            continue
        first = arrays[f"{found[1]}.weights[0]"]
        sources = np.array(free.source[array.first : array.first + array.size])
        base = _OF_HISTORY if array.name.startswith("history.") else _OF_ONE_INPUT
        width = max(base / first.shape[1], _LEAST)
        widths[sources[sources >= 0]] = width
    return widths[weights]
