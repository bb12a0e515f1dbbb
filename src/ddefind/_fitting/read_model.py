"""The model that is to be fitted: a problem, an equation, or a function alone."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from .._data.data import Data
from .._equation.equation import Equation
from .._equation.problem_text import equation_of
from .._problem.parameters import Fixed
from .._problem.problem import Problem
from .._util.errors import check_instance, quoted
from .bare_model import problem_of
from .request import FitOptions

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
