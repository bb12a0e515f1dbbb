"""A problem in plain words and numbers, and back.

A text equation is described by its text, an input by its table or its formula, and a
network by its sizes, shapes and scales; its weights stand among the parameters of a
saved fit. A right-hand side, history, delay or solver is described by the name of its
class, if that is one of the package's own: any final class in the file of its base
class. A function or a class of the user's is code, which no file holds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import models
from .._engine.choose import SOLVERS, saved_solver
from .._engine.runge_kutta import AbstractIntegrator
from .._equation.equation import Equation, equation
from .._equation.given_tables import FormulaInput
from .._equation.network_names import given_networks
from .._equation.problem_text import equation_of
from .._problem import general_delays, history, kernels
from .._problem.delays import AbstractDelay
from .._problem.doses import Doses, Event, Quantity
from .._problem.inputs import AbstractInput, Input
from .._problem.network import Network, networks_in, with_networks
from .._problem.problem import NetworkRhs, Problem, with_noise
from .._util.arrays import is_parameter
from .._util.errors import ResultError
from ..noise._gaussian import Given
from ..noise._read_noise import WORDS
from .saved_fields import (
    Array,
    ByType,
    Entries,
    Flag,
    Many,
    Maybe,
    Named,
    Real,
    Whole,
    Words,
)

# The properties of a network.
_FLAGS = "positive", "increasing", "decreasing", "through_zero"
# A class of the package, the shapes of its arrays, and its other arguments.
_ARGUMENTS = Named(ByType({int: Whole(), bool: Flag(), float: Real()}))
_SHAPES = Named(Array(int, "axes"))
_MODULE = Entries({"class": Words(), "shapes": _SHAPES, "arguments": _ARGUMENTS})
_MODULES = Entries(
    {
        "rhs": _MODULE,
        "history": _MODULE,
        "tau": Maybe(_MODULE),
        "initial": Maybe(Whole(1)),
    }
)
_HISTORY = Maybe(ByType({str: Words(), list: Array(float, "d"), dict: _MODULE}))
_EQUATION = Entries(
    {"equation": Words(), "history": _HISTORY, "observe": Maybe(Words())}
)
# The further fields of an equation with networks.
_NETWORKS = Entries({"networks": Named(_ARGUMENTS)})
# The further fields of an equation with inputs or doses.
_QUANTITY = Entries(
    {"numbers": Array(float, "times"), "name": Maybe(Words())}, Quantity
)
_EVENT = {
    "state": Whole(),
    "is_set": Flag(),
    "times": _QUANTITY,
    "amounts": _QUANTITY,
    "duration": Maybe(_QUANTITY),
}
_EVENTS = Many(Entries(_EVENT, Event))
_INPUT = {
    "kind": Words(("linear", "steps", "cubic", "formula")),
    "t": Array(float, "knots"),
    "values": Array(float, "knots"),
    "text": Words(),
}
_DRIVING = Entries({"inputs": Named(Entries(_INPUT)), "doses": _EVENTS})
# The scales of a network.
SCALES = Entries(
    {
        "center": Array(float, "inputs"),
        "scale": Array(float, "inputs"),
        "size": Array(float, "outputs"),
        "offset": Array(float, "outputs"),
    }
)


def read_problem(described: Any) -> dict[str, Any] | None:
    """Read the description of a problem, every field checked, or None."""
    if described is None:
        return None
    is_text = isinstance(described, dict) and "equation" in described
    read = (_EQUATION if is_text else _MODULES).read(described, "problem", {})
    if is_text and "networks" in described:
        read |= _NETWORKS.read(described, "problem", {})
    if is_text and "inputs" in described:
        read |= _DRIVING.read(described, "problem", {})
    return read


def _describe_inputs(inputs: Mapping[str, AbstractInput]) -> dict[str, Any] | None:
    """Describe the inputs by name; None if one is the user's code."""
    found: dict[str, Any] = {}
    for name, each in inputs.items():
        if isinstance(each, FormulaInput):
            found[name] = {"kind": "formula", "t": [], "values": [], "text": each.text}
        elif isinstance(each, Input):
            found[name] = {"kind": each.kind, "t": each.t, "values": each.values}
            found[name]["text"] = ""
        else:
            return None
    return found


def _with_driving(model: Equation, described: Mapping[str, Any]) -> Equation:
    """Give a model its inputs and doses from a file."""
    given: dict[str, Any] = {}
    for name, each in described["inputs"].items():
        is_formula = each["kind"] == "formula"
        table = each["t"], each["values"], each["kind"]
        given[name] = each["text"] if is_formula else Input(*table)
    try:
        model = model.with_inputs(given)
    except ValueError as error:
        raise ResultError(f"`problem.inputs`: {error}") from None
    events = described["doses"]
    if not events:
        return model
    names: set[str | None] = set()
    for event in events:
        if event.state >= len(model.states):
            raise ResultError(
                "`problem.doses` has a state that the equation does not have."
            )
        quantities = [event.times, event.amounts, event.duration]
        quantities = [each for each in quantities if each is not None]
        if len({len(each.numbers) for each in quantities}) > 1:
            raise ResultError("`problem.doses` has tables of different lengths.")
        names |= {each.name for each in quantities}
    values = {name: jnp.asarray(np.nan) for name in sorted(filter(None, names))}
    has_initial = bool(model.lines.of("initial"))
    return model.with_doses(Doses(values, events, len(model.states), has_initial))


def _describe_network(network: Network) -> dict[str, Any]:
    """Return the sizes of a network and its further properties."""
    found: dict[str, Any] = {"inputs": network.inputs, "d": network.outputs}
    found |= {"width": network.width, "depth": network.depth}
    found |= {name: True for name in _FLAGS if getattr(network, name)}
    if network.bounds is not None:
        found |= dict(zip(("low", "high"), network.bounds))
    return found


def _network_from(where: str, described: Mapping[str, Any], most: int) -> Network:
    """Make the described network, which may have no more than `most` weights."""
    values = dict(described)
    inputs, d = values.pop("inputs", 1), values.pop("d", 1)
    width, depth = values.get("width", 1), values.get("depth", 1)
    if max(inputs, d, width * depth, width * d) > most:
        raise ResultError(f"`{where}` has larger arrays than the file has numbers for.")
    bounds = (values.pop("low", None), values.pop("high", None))
    if bounds != (None, None):
        values["bounds"] = bounds
    known = ("bounds", "width", "depth", *_FLAGS)
    unknown = [name for name in values if name not in known]
    if unknown:
        raise ResultError(f"`{where}` has the unknown property {unknown[0]!r}.")
    try:
        return Network(**values, outputs=d).sized(inputs)
    except (TypeError, ValueError) as error:
        raise ResultError(f"`{where}`: {error}") from None


def with_scales(problem: Problem, saved: Sequence[Mapping[str, Any]]) -> Problem:
    """Give the networks of a problem their saved scales."""
    networks = networks_in(problem)
    if len(saved) != len(networks):
        raise ResultError(
            f"The problem has {len(networks)} networks, but the file {len(saved)}."
        )
    for network, scales in zip(networks, saved):
        shapes = {name: getattr(network, name).shape for name in scales}
        if shapes != {name: each.shape for name, each in scales.items()}:
            raise ResultError("The scales of a network have the wrong sizes.")
    scaled = [network.scaled(**scales) for network, scales in zip(networks, saved)]
    return with_networks(problem, scaled)


def _final_classes(module: ModuleType, base: type) -> dict[str, type]:
    """Return the final classes of a file derived from `base`, by name."""
    return {
        name: cls
        for name, cls in vars(module).items()
        if isinstance(cls, type)
        and issubclass(cls, base)
        and cls.__module__ == module.__name__
        and getattr(cls, "__final__", False)
    }


_MODELS = _final_classes(models, models.AbstractModel)
_CLASSES = {
    **{f"models.{name}": cls for name, cls in _MODELS.items()},
    **_final_classes(history, history.AbstractHistory),
    **_final_classes(general_delays, AbstractDelay),
    **_final_classes(kernels, AbstractDelay),
    "NetworkRhs": NetworkRhs,
}
# The classes that are made of one network, and how they are made of it.
_OF_NETWORK = {
    "models.Neural": models.Neural.of,
    "Neural": lambda network: history.NeuralHistory.of(network, network.outputs),
    "NetworkRhs": NetworkRhs,
}
_NAMES = {cls: name for name, cls in _CLASSES.items()}


def describe(problem: Problem, model: Equation | None) -> dict[str, Any] | None:
    """Describe a problem without its numbers; None if a part is the user's code."""
    if model is not None or (model := equation_of(problem)) is not None:
        return _describe_equation(model)
    rhs, past = _describe_module(problem.rhs), _describe_module(problem.history)
    is_number = isinstance(problem.tau, jax.Array)
    tau = None if is_number else _describe_module(problem.tau)
    if rhs is None or past is None or (tau is None and not is_number):
        return None
    if problem.observe is not None or problem.switches != ():
        return None
    if problem.doses is not None or callable(problem.initial):
        return None
    initial = None if problem.initial is None else len(problem.initial)
    return {"rhs": rhs, "history": past, "tau": tau, "initial": initial}


def described_noise(problem: Problem) -> dict[str, Any] | None:
    """Describe the noise models by quantity, with their known parameters; None if there
    are none. Learned parameters are saved with all others."""
    if problem.noise is None:
        return None
    return {
        name: {
            "model": model.word,
            "known": {
                field: float(getattr(model, field))
                for field in model.names
                if isinstance(getattr(model, field), np.ndarray)
            },
        }
        for name, model in problem.noise.items()
    }


def with_described_noise(
    problem: Problem, described: Mapping[str, Any] | None
) -> Problem:
    """Give a problem these noise models, with learned parameters still to be set."""
    if described is None:
        return with_noise(problem, None)
    words = {**WORDS, Given.word: Given}
    models = {}
    for name, each in described.items():
        if each["model"] not in words:
            raise ResultError(f"There is no noise model {each['model']!r}.")
        models[name] = words[each["model"]](**each["known"])
    return with_noise(problem, models)


def is_known_solver(solver: Any) -> bool:
    """Whether the solver is one of the package's own."""
    return SOLVERS.get(type(solver).__name__) is type(solver)


def solver_named(name: str, tolerances: Mapping[str, Any] | None) -> AbstractIntegrator:
    """Make the solver of that name, with its tolerances if it has any."""
    try:
        return saved_solver(name, tolerances)
    except ValueError as error:
        raise ResultError(str(error)) from None


def rebuild(described: Mapping[str, Any], most: int) -> tuple[Problem, Equation | None]:
    """Make the problem, without its numbers, and the equation that it comes from. Its
    arrays have at most `most` elements, the number of values in the file."""
    if "equation" in described:
        past = described["history"]
        if isinstance(past, dict):
            past = _rebuild_module("problem.history", past, most)
        elif isinstance(past, np.ndarray):
            past = past.tolist()
        text, observe = described["equation"], described["observe"]
        names = tuple(described.get("inputs", ()))
        model = equation(text, history=past, observe=observe, inputs=names)
        networks = described.get("networks", {})
        where = "problem.networks.{}"
        model = model.with_networks(
            {n: _network_from(where.format(n), a, most) for n, a in networks.items()}
        )
        model = _with_driving(model, described) if "inputs" in described else model
        return model.blank, model
    initial = described["initial"]
    if initial is not None and initial > most:
        raise ResultError(f"`problem.initial` is {initial}: the file is too short.")
    tau = described["tau"]
    problem = Problem(
        _rebuild_module("problem.rhs", described["rhs"], most),
        _rebuild_module("problem.history", described["history"], most),
        tau=1.0 if tau is None else _rebuild_module("problem.tau", tau, most),
        initial=None if initial is None else np.zeros(initial),
    )
    return problem, None


def _describe_equation(model: Equation) -> dict[str, Any] | None:
    past = model.history
    if callable(past) and (past := _describe_module(past)) is None:
        return None
    text, observe = model.texts
    found = {"equation": text, "history": past, "observe": observe}
    if model.network_names:
        networks = given_networks(model.blank, model.network_names)
        found["networks"] = {n: _describe_network(net) for n, net in networks.items()}
    if not model.inputs and model.doses is None:
        return found
    inputs = _describe_inputs(model.given)
    if inputs is None:
        return None
    doses = () if model.doses is None else model.doses.events
    return {**found, **_DRIVING.write({"inputs": inputs, "doses": doses})}


def _describe_module(module: Any) -> dict[str, Any] | None:
    """Return the class of a module and the arguments that make one of the same shapes:
    those of its network, if it is made of one, or its fields, of which all that are not
    arrays must be integers or flags."""
    name = _NAMES.get(type(module))
    if name is None:
        return None
    if name in _OF_NETWORK:
        arguments = _describe_network(module.network)
        return {"class": name, "shapes": {}, "arguments": arguments}
    values = {field.name: getattr(module, field.name) for field in fields(module)}
    arrays = {key: v for key, v in values.items() if is_parameter(v)}
    others = {key: v for key, v in values.items() if key not in arrays}
    if not all(type(value) in (int, bool) for value in others.values()):
        return None
    shapes = {key: list(v.shape) for key, v in arrays.items()}
    return {"class": name, "shapes": shapes, "arguments": others}


def _rebuild_module(where: str, described: Mapping[str, Any], most: int) -> Any:
    """Make a module of blank numbers, or a network, of the described shapes."""
    name, arguments = described["class"], described["arguments"]
    if name not in _CLASSES:
        raise ResultError(f"`{where}.class` is {name!r}, which is not of this package.")
    shapes = {key: shape.tolist() for key, shape in described["shapes"].items()}
    if name in _OF_NETWORK:
        return _OF_NETWORK[name](_network_from(where, arguments, most))
    sizes = [math.prod(shape) for shape in shapes.values()]
    if max(sizes, default=0) > most or min(sizes, default=0) < 0:
        raise ResultError(f"`{where}` has larger arrays than the file has numbers for.")
    # A delay has to be positive; NaN stands for numbers that are not known yet.
    blank = np.nan if issubclass(_CLASSES[name], AbstractDelay) else 0.0
    arrays = {key: np.full(shape, blank) for key, shape in shapes.items()}
    return _CLASSES[name](**arrays, **arguments)
