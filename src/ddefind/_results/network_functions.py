"""The functions that the networks of a fit have learned."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._equation.equation import Equation
from .._equation.expression import Call, formula_text, walk
from .._inference.learned_function import (
    LearnedFunction,
    Trajectory,
    WeightShares,
    visited_arguments,
)
from .._problem.delays import delay_names
from .._problem.network import Network
from .._problem.network_weights import NamedNetwork, named_networks
from .._problem.problem import NetworkRhs
from .._util.errors import did_you_mean

if TYPE_CHECKING:
    from .estimate import Estimate
    from .result import AbstractFit


# The range of arguments that cannot be seen, in standard deviations of the data.
_UNSEEN = 2.0


def learned_functions(fit: "AbstractFit") -> dict[str, LearnedFunction]:
    """Return the function of each network of a fit, by its name. If the experiments of
    a study have networks of their own, those are called `NN@low`."""
    if fit.experiments:
        estimate: Any = fit
        return _of_study(estimate)
    found = named_networks(fit.problem)
    if not found:
        return {}
    t = fit.data.t[fit.data.t >= fit.time_zero] - fit.time_zero
    visited = visited_arguments(fit.problem, _trajectory(fit), t)
    determined = getattr(fit, "determined_weights", {})
    return {
        name: LearnedFunction(
            name,
            _arguments(fit, name, each.network),
            visited.get(each.number, _unseen(each.network)),
            each.network,
            determined.get(f"network `{name}`"),
            _weight_shares(fit, each),
        )
        for name, each in found.items()
    }


def chosen_function(
    functions: dict[str, LearnedFunction], name: str | None
) -> LearnedFunction:
    """Return the function with this name, or the only one."""
    if not functions:
        raise ValueError(
            "This fit has learned no function: its model has no `dd.Network`, and no "
            "`NN(...)` in a text."
        )
    if name is None:
        if len(functions) > 1:
            listed = ", ".join(map(repr, functions))
            raise ValueError(
                f"This fit has learned {len(functions)} functions. Say which one: "
                f"{listed}."
            )
        return next(iter(functions.values()))
    if name not in functions:
        raise ValueError(
            f"There is no network {name!r}.{did_you_mean(str(name), functions)}"
        )
    return functions[name]


def _of_study(fit: "Estimate") -> dict[str, LearnedFunction]:
    """Return the functions of a study, over what all experiments that share them
    visited."""
    joint, views = fit.setup.joint, fit.experiments
    parts = [learned_functions(view) for view in views.values()]
    found = {}
    for name, first in parts[0].items():
        each = [part[name] for part in parts]
        # The indices of the weights among the free values of the study.
        places = [
            np.where(f.shares.places >= 0, joint.place[e][f.shares.places], -1)
            for e, f in enumerate(each)
            if f.shares is not None
        ]
        if all(np.array_equal(place, places[0]) for place in places):
            visited = np.concatenate([f.visited for f in each])
            found[name] = replace(first, visited=visited)
            continue
        for label, function in zip(views, each):
            full_name = f"{name}@{label}"
            found[full_name] = replace(function, name=full_name)
    return found


def _trajectory(fit: "AbstractFit") -> Trajectory:
    """Return the fitted trajectory, counted from the time at which the history ends."""
    return fit.system.trajectory(fit.solution, fit.time_zero)


def _unseen(network: Network) -> np.ndarray:
    """Return the range of a network's scales, for arguments that cannot be seen."""
    steps = np.linspace(-_UNSEEN, _UNSEEN, 5)[:, None]
    return np.asarray(network.center) + steps * np.asarray(network.scale)


def _weight_shares(fit: "AbstractFit", named: NamedNetwork) -> WeightShares | None:
    """Return the precision of a network's weights; None after gradient descent."""
    if not hasattr(fit, "uncertainty"):
        return None
    estimate: Any = fit
    free = estimate.setup.model.free
    first = {array.name: array.first for array in free.arrays}
    places = [
        free.source[first[array.name] : first[array.name] + array.size]
        for array in named.arrays
    ]
    return WeightShares(estimate.uncertainty, np.concatenate(places).astype(int))


def _arguments(fit: "AbstractFit", name: str, network: Network) -> tuple[str, ...]:
    """Name the arguments of a network: as they stand in the text, if it is called in
    one way there; t in a history; else u, or u1, u2 and so on."""
    count = network.inputs or 0
    if fit.model is not None:
        calls = _calls(fit.model, name)
        if len(calls) == 1 and len(calls[0]) == count == len(set(calls[0])):
            return calls[0]
    problem = fit.problem
    if isinstance(problem.rhs, NetworkRhs) and problem.rhs.network is network:
        states = fit.state_names
        delays = delay_names(problem.tau)
        past = [f"{x}(t - {delay})" for delay in delays for x in states]
        if len(states) + len(past) == count:
            return (*states, *past)
    if name == "history" and count == 1:
        return ("t",)
    return ("u",) if count == 1 else tuple(f"u{i}" for i in range(1, count + 1))


def _calls(model: Equation, name: str) -> list[tuple[str, ...]]:
    """Return the different arguments with which a network is called in a text."""
    lines = (*model.lines.model, *model.lines.observe)
    parts = [part for line in lines for part in walk(line.formula)]
    calls = [
        tuple(map(formula_text, part.arguments))
        for part in parts
        if isinstance(part, Call) and part.function == name
    ]
    return list(dict.fromkeys(calls))
