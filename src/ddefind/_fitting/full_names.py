"""Settings of parameters by their full names."""

from collections.abc import Mapping
from typing import Any

from .._problem.parameter_names import parameter_arrays
from .._problem.parameters import find
from .._problem.problem import Problem


def by_full_names(
    problem: Problem, parameters: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The settings of a problem's parameters, by names that stay unambiguous when the
    history has other parameters.

    >>> import ddefind as dd
    >>> model = dd.equation("x' = a * x(t - tau)")
    >>> by_full_names(model.blank, {"a": 1.0})
    {'rhs.a': 1.0}
    """
    arrays = parameter_arrays(problem)
    full = {}
    for key, setting in (parameters or {}).items():
        elements = find(key, arrays).tolist()
        array = next(a for a in arrays if a.first <= elements[0] < a.first + a.size)
        whole = len(elements) == array.size
        names = array.elements(array.name)
        full[array.name if whole else names[elements[0] - array.first]] = setting
    return full
