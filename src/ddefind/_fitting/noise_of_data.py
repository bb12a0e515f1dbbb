"""The noise of a fit: a model for each measured quantity, where one is asked for."""

from typing import Any

import numpy as np

from .._data.study_data import Records
from .._problem.problem import Problem, with_noise
from .._util import wording
from .._util.errors import DataError, quoted
from ..noise._gaussian import Gaussian
from ..noise._read_noise import read_noise, with_given
from .least_squares import LeastSquares


def with_noise_of(problem: Problem, data: Records, noise: Any) -> Problem:
    """The problem with the noise that a fit has: as the argument `noise` says, or else
    the problem's own. Where there is none it is Gaussian, and least squares finds it,
    unless some values are only known to be below a limit."""
    given = problem.noise if noise is None else noise
    if given is None and data.below is None:
        return problem
    models = read_noise(Gaussian() if given is None else given, data.names)
    below = np.zeros(data.x.shape, bool) if data.below is None else data.below
    for column, name in enumerate(data.names):
        here = np.isfinite(data.x[:, column])
        if here.any() and np.all(below[here, column]):
            raise DataError(
                f"All values of {quoted(name)} are below a limit: they say nothing but "
                "that. Leave this quantity out."
            )
    return with_noise(problem, with_given(models, data.names, data.x, data.sd, below))


def check_method(method: Any, problem: Problem) -> None:
    """Refuse noise models for methods that have none: all but least squares."""
    if problem.noise is not None and not isinstance(method, LeastSquares):
        raise ValueError(
            f"`{type(method).__name__}()` knows Gaussian noise alone, without models "
            "for it and without values below a limit. Leave these out, or fit with "
            f"{wording.LEAST_SQUARES}."
        )
