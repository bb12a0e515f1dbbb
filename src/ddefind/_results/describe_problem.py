"""What a problem is made of, as plain words and numbers, and back.

Text equations, and problems of the package's own modules, can be described so. A
function or a module of the user's is code, and is not."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import equinox as eqx
import numpy as np

from .. import models
from .._equation.equation import Equation, equation
from .._problem.history import Affine, Constant, Neural, Periodic
from .._problem.problem import Problem

_PLAIN: dict[str, Callable[..., Any]] = {
    "Constant": Constant,
    "Affine": Affine,
    "Periodic": Periodic,
    "models.Exponential": models.Exponential,
    "models.Logistic": models.Logistic,
    "models.ENSO": models.ENSO,
    "models.Cheyne": models.Cheyne,
    "models.HIV": models.HIV,
}
_NETWORKS: dict[str, Callable[..., Any]] = {
    "Neural": Neural,
    "models.Neural": models.Neural,
}


def describe(problem: Problem, model: Equation | None) -> dict[str, Any] | None:
    """A problem without its numbers; None if a part of it is the user's code."""
    if model is not None:
        return _describe_equation(model)
    rhs, history = _describe_module(problem.rhs), _describe_module(problem.history)
    if rhs is None or history is None or problem.observe is not None:
        return None
    initial = None if problem.initial is None else len(problem.initial)
    return {"rhs": rhs, "history": history, "initial": initial}


def rebuild(described: dict[str, Any]) -> tuple[Problem, Equation | None]:
    """The problem, its numbers still to be set, and the equation it comes from."""
    if "equation" in described:
        history = described["history"]
        history = _rebuild_module(history) if isinstance(history, dict) else history
        observe = described["observe"]
        model = equation(described["equation"], history=history, observe=observe)
        return model.blank, model
    initial = described["initial"]
    problem = Problem(
        _rebuild_module(described["rhs"]),
        _rebuild_module(described["history"]),
        tau=1.0,
        initial=None if initial is None else np.zeros(initial),
    )
    return problem, None


def _describe_equation(model: Equation) -> dict[str, Any] | None:
    history = model.history
    if callable(history) and (history := _describe_module(history)) is None:
        return None
    text, observe = model.texts
    return {"equation": text, "history": history, "observe": observe}


def _describe_module(module: Any) -> dict[str, Any] | None:
    """Its class, and the arguments of that: for arrays, their shapes."""
    for name, cls in _NETWORKS.items():
        if type(module) is cls:
            sizes = [len(bias) for bias in module.network.biases]
            width = sizes[0] if len(sizes) > 1 else 1
            arguments = {"d": sizes[-1], "width": width, "depth": len(sizes) - 1}
            return {"class": name, "arguments": arguments}
    for name, cls in _PLAIN.items():
        if type(module) is cls:
            given = {
                field.name: getattr(module, field.name) for field in fields(module)
            }
            arrays = {key: v for key, v in given.items() if eqx.is_inexact_array(v)}
            others = {key: v for key, v in given.items() if key not in arrays}
            if all(type(value) is int for value in others.values()):
                shapes = {key: list(v.shape) for key, v in arrays.items()}
                return {"class": name, "shapes": shapes, "arguments": others}
    return None


def _rebuild_module(described: dict[str, Any]) -> Any:
    name, arguments = described["class"], described["arguments"]
    if name in _NETWORKS:
        return _NETWORKS[name](**arguments)
    zeros = {key: np.zeros(shape) for key, shape in described["shapes"].items()}
    return _PLAIN[name](**zeros, **arguments)
