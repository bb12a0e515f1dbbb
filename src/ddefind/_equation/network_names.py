"""The networks of a text: their names and sizes.

`NN(...)` is a network, and so is every name that begins with `NN_` where it stands
before a parenthesis. One name is one network."""

from collections.abc import Mapping, Sequence
from typing import Any

from .._problem.network import Network, is_network
from .._problem.problem import Problem
from .._util.errors import did_you_mean, shown
from .expression import Call, Expression, is_network_name, networks_called, walk
from .parser import EquationError

# The names of the lines of a model in messages, by their kind.
_PLACES = {"derivative": "an equation", "history": "a history"}


def check_networks(
    model: Sequence[Any], observe: Sequence[Any], parameters: set[str]
) -> None:
    """Check that each network has a name of its own, one number of inputs, and stands
    in one part of the model only."""
    sizes: dict[str, int] = {}
    for line in (*model, *observe):
        for part in walk(line.formula):
            if not (isinstance(part, Call) and is_network_name(part.function)):
                continue
            name, count = part.function, len(part.arguments)
            if name in parameters:
                raise EquationError(
                    f"{name!r} is a network, {name}(...), and a parameter, too. Give "
                    "the parameter another name."
                )
            if sizes.setdefault(name, count) != count:
                raise EquationError(
                    f"The network {name}(...) gets {sizes[name]} values in one place "
                    f"and {count} in another. Give it the same number of values, or "
                    f"call one of them {_another(name)}."
                )
    places: dict[str, set[str]] = {}
    definitions = {line.name: line for line in model if line.kind == "definition"}
    for line in (*model, *observe):
        if line.kind != "definition" or line in observe:
            place = _PLACES.get(line.kind, "an observed quantity")
            for name in _reached(line.formula, definitions):
                places.setdefault(name, set()).add(place)
    for name, found in places.items():
        if len(found) > 1:
            listed = " and in ".join(sorted(found))
            raise EquationError(
                f"The network {name}(...) stands in {listed}. It can stand in one of "
                f"them: call the other {_another(name)}."
            )


def read_networks(names: Sequence[str], networks: Any) -> dict[str, Network]:
    """Return the argument `networks`, a dict of networks by name."""
    if not isinstance(networks, Mapping):
        raise TypeError(
            '`networks` maps names to networks, as {"NN": dd.Network(width=32)}, but '
            f"got {shown(networks)}."
        )
    for name, network in networks.items():
        if name not in names:
            listed = ", ".join(f"{each}(...)" for each in names) or "none"
            raise ValueError(
                f"The text has no network {name!r}: its networks are {listed}."
                f"{did_you_mean(str(name), names)}"
            )
        if not is_network(network):
            raise TypeError(
                f"The network {name!r} must be a `dd.Network(...)`, but got "
                f"{shown(network)}."
            )
        if network.outputs != 1:
            raise ValueError(
                f"The network {name!r} has {network.outputs} outputs, but in a text a "
                "network is one number. Write a network of its own for each."
            )
    return dict(networks)


def given_networks(problem: Problem, names: Sequence[str]) -> dict[str, Network]:
    """Return the networks of a problem that was made from a text."""
    parts = (problem.rhs, problem.history, problem.observe)
    return {
        name: getattr(part, name)
        for part in parts
        for name in names
        if is_network(getattr(part, name, None))
    }


def _reached(formula: Expression, definitions: Mapping[str, Any]) -> set[str]:
    """Return the networks in a formula and in the definitions that it uses."""
    networks, waiting, visited = set(networks_called(formula)), [formula], set()
    while waiting:
        for part in walk(waiting.pop()):
            name = getattr(part, "name", "")
            if name in definitions and name not in visited:
                visited.add(name)
                inner = definitions[name].formula
                networks |= set(networks_called(inner))
                waiting.append(inner)
    return networks


def _another(name: str) -> str:
    """Return another name for a network."""
    return "NN_2" if name == "NN" else f"{name}_2"
