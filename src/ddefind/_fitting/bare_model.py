"""A right-hand side alone, without a history and a delay: `fit` adds both.

The state has a component for each column of the data. The history is constant unless
the fit is given another, and there is one delay, `tau`. Their values are not known: the
search finds start values, as for a text."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._data.data import Data
from .._equation.history_kinds import CHOSEN_BY_FIT, blank_history
from .._problem.history import KINDS
from .._problem.parameter_names import parameter_arrays
from .._problem.parameters import finite_numbers, parameter_vector, with_values
from .._problem.problem import Problem
from .._util.errors import did_you_mean


def problem_of(rhs: Callable[..., Any], data: Data, history: Any) -> Problem:
    """The problem of a right-hand side `rhs(x, y, tau, t)`, whose history and delay
    are still to be found.

    >>> data = Data([0.0, 1.0, 2.0], [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]])
    >>> problem_of(lambda x, y, tau, t, k=1.0: -k * y, data, None).dimension
    2
    """
    d = len(data.names)
    past = blank_history(_read_history(history, d), d)
    # The delay is 1 until the problem is checked.
    problem = Problem(rhs, past, tau=1.0)
    values = parameter_vector(problem)
    values[[a.first for a in parameter_arrays(problem) if a.is_delay]] = np.nan
    return with_values(problem, values)


def _read_history(history: Any, d: int) -> Any:
    """The argument `history` as a kind, numbers or a history."""
    if history is None:
        return "constant"
    if isinstance(history, str) and history in CHOSEN_BY_FIT:
        raise ValueError(
            f'`history="{history}"` is for models that are texts, `dd.equation(...)`. '
            f"For a function choose one of {', '.join(KINDS)}, or give a history, as "
            "`dd.Affine(a=1.0, b=2.0)`."
        )
    if isinstance(history, str) and history not in KINDS:
        raise ValueError(
            f"There is no history {history!r}.{did_you_mean(history, KINDS)}"
        )
    if isinstance(history, str) or callable(history):
        return history
    return tuple(finite_numbers("history", history, d).tolist())
