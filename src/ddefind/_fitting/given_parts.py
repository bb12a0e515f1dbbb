"""What a fit gives to a model beside data: inputs and doses."""

from typing import Any

from .._equation.equation import Equation
from .._problem.doses import make_doses
from .._problem.problem import Problem, with_parts
from .request import FitOptions


def with_given(problem: Any, options: FitOptions) -> Any:
    """The model of a fit with the inputs and the doses that are given to it."""
    if options.inputs is not None:
        if not isinstance(problem, Equation):
            raise ValueError(
                "`inputs` are those of an `Equation`; a `Problem` has its own, as "
                "fields of its modules or as defaults of its functions."
            )
        problem = problem.with_inputs(options.inputs)
    if options.doses is None:
        return problem
    if isinstance(problem, Equation):
        return problem.with_doses(options.doses)
    if not isinstance(problem, Problem):
        raise ValueError("`doses` are for an `Equation` or a `Problem`.")
    has_initial = problem.initial is not None
    doses = make_doses(options.doses, problem.dimension, has_initial)
    return with_parts(problem, doses=doses)
