"""What a fit gives to a model beside data: inputs, networks and doses."""

from dataclasses import replace
from typing import Any

from .._equation.equation import Equation
from .._problem.doses import make_doses
from .._problem.problem import Problem, with_parts
from .._util.errors import quoted
from .experiment import Experiment
from .request import FitOptions


def with_given(problem: Any, options: FitOptions) -> Any:
    """The model of a fit with the inputs, networks and doses that are given to it."""
    if options.inputs is not None:
        if not isinstance(problem, Equation):
            raise ValueError(
                "`inputs` are those of an `Equation`; a `Problem` has its own, as "
                "fields of its modules or as defaults of its functions."
            )
        problem = problem.with_inputs(options.inputs)
    if options.networks is not None:
        if not isinstance(problem, Equation):
            raise ValueError(
                "`networks` are those of an `Equation`, `NN(...)`; a `Problem` has its "
                "own."
            )
        problem = problem.with_networks(options.networks)
    if options.doses is None:
        return problem
    if isinstance(problem, Equation):
        return problem.with_doses(options.doses)
    if not isinstance(problem, Problem):
        raise ValueError("`doses` are for an `Equation` or a `Problem`.")
    has_initial = problem.initial is not None
    doses = make_doses(options.doses, problem.dimension, has_initial)
    return with_parts(problem, doses=doses)


def with_own(
    problem: Any, experiment: Experiment, given: FitOptions, label: str
) -> Any:
    """The model with the inputs and doses of one experiment."""
    try:
        return with_given(problem, _own_options(experiment, given))
    except (TypeError, ValueError) as error:
        raise type(error)(f"Experiment {quoted(label)}: {error}") from None


def _own_options(experiment: Experiment, given: FitOptions) -> FitOptions:
    """The options for one experiment, with its inputs and doses beside those of all."""
    inputs = {**(given.inputs or {}), **(experiment.inputs or {})}
    doses = [*(given.doses or ()), *experiment.doses]
    return replace(given, inputs=inputs or None, doses=doses or None)
