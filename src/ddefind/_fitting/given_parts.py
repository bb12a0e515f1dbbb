"""What a fit gives to a text beside data: inputs."""

from typing import Any

from .._equation.equation import Equation
from .request import FitOptions


def with_given(problem: Any, options: FitOptions) -> Any:
    """The model of a fit with the inputs that are given to it."""
    if options.inputs is None:
        return problem
    if not isinstance(problem, Equation):
        raise ValueError(
            "`inputs` are those of an `Equation`; a `Problem` has its own, as fields of "
            "its modules or as defaults of its functions."
        )
    return problem.with_inputs(options.inputs)
