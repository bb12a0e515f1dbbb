"""A fit among many as it is kept: what its own file would hold, without the problem and
the data, which stand elsewhere."""

from typing import Any

from .._data.data import Data
from .._equation.equation import Equation
from .._problem.history import time_zero
from .._problem.problem import Problem
from .._util.json_numbers import nonfinite_as_words
from .estimate import Estimate
from .load import fit_of_content
from .result import AbstractFit, FitResult
from .save import data_fields

# What is not kept, or follows from the rest.
_LEFT_OUT = ("problem", "data", "text", "table")


def kept_content(fit: AbstractFit) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is kept of a fit, as plain words and numbers; and the rows of its table."""
    content = fit.file_content()
    kept = {name: each for name, each in content.items() if name not in _LEFT_OUT}
    return kept, content["table"]


def fit_of_kept(
    kept: dict[str, Any], problem: Problem, data: Data, equation: Equation | None
) -> Estimate | FitResult:
    """The whole fit, of this problem to these data. Nothing is fitted again."""
    fields = data_fields(data.later(time_zero(problem.history)))
    fields = nonfinite_as_words(fields)
    left_out = {"problem": None, "data": fields, "text": "", "table": []}
    return fit_of_content({**kept, **left_out}, problem, equation)
