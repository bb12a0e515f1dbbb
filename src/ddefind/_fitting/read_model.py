"""The model that is to be fitted: a problem, an equation, or a function alone.

A right-hand side alone, without a history and a delay: `fit` adds both.

The state has a component for each column of the data. The history is constant unless
the fit is given another, and there is one delay, `tau`. Their values are not known: the
search finds start values, as for a text.

What a fit gives to a model beside data: inputs, networks and doses."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from .._data.data import Data
from .._equation.equation import Equation
from .._equation.history_kinds import CHOSEN_BY_FIT, blank_history
from .._equation.problem_text import equation_of
from .._problem.doses import make_doses
from .._problem.history import KINDS
from .._problem.parameters import (
    Fixed,
    finite_numbers,
    parameter_arrays,
    parameter_vector,
    with_values,
)
from .._problem.problem import Problem, with_parts
from .._util.errors import check_instance, did_you_mean, quoted
from .request import FitOptions
from .study import Experiment


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


# What `fit` fits: a callable object is a right-hand side alone.
Model: TypeAlias = Problem | Equation | Callable[..., Any]


def problem_of_model(problem: Model, data: Data, options: FitOptions) -> Problem:
    """The problem to fit."""
    check_instance("data", data, Data, "Data(t, x)")
    if isinstance(problem, Equation):
        return _with_given_history(problem, options).blank
    if callable(problem) and not isinstance(problem, type):
        return problem_of(problem, data, options.history)
    checked = _checked_problem(problem)
    if options.history is not None:
        raise ValueError(
            "`history` replaces that of an `Equation`; a `Problem` has its own."
        )
    return checked


def equation_of_model(problem: Model, options: FitOptions) -> Equation | None:
    """The text equation that a problem is or was made from, if there is one."""
    if isinstance(problem, Equation):
        return _with_given_history(problem, options)
    return equation_of(problem) if isinstance(problem, Problem) else None


def _with_given_history(model: Equation, options: FitOptions) -> Equation:
    given = options.history
    return model if given is None else model.with_history(given)


def _checked_problem(problem: Any) -> Problem:
    """The problem, or an error if it is something else."""
    if isinstance(problem, str):
        raise TypeError(
            "`problem` is a text. Make an equation of it: "
            f"`dd.fit(dd.equation({quoted(problem)}), data)`."
        )
    if isinstance(problem, type):
        name = problem.__name__
        raise TypeError(f"`problem` is the class `{name}`. Call it: `{name}(...)`.")
    check_instance("problem", problem, Problem, "Problem(rhs, history, tau)")
    return problem


def with_settings_of(
    equation: Equation | None, data: Data, options: FitOptions
) -> FitOptions:
    """The options, with what an equation knows of its parameters: ties, and a delay
    that it gives."""
    if equation is None:
        return options
    settings: dict[str, Any] = dict(equation.settings)
    if not equation.needs_tau:
        # Without a delay only the solver's steps depend on tau.
        settings["tau"] = Fixed(data.T / 10)
    return replace(options, parameters={**settings, **(options.parameters or {})})


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
