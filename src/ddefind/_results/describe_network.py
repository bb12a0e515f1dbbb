"""Networks in plain words and numbers, and back: their sizes, shapes and scales.

The weights of a network stand among the parameters of a saved fit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._problem.network import Network, networks_in, with_networks
from .._problem.problem import Problem
from .._util.errors import ResultError

_FLAGS = "positive", "increasing", "decreasing", "through_zero"
_SCALES = "center", "scale", "size", "offset"


def describe_network(network: Network) -> dict[str, Any]:
    """The sizes of a network, and the properties that it has beside."""
    found: dict[str, Any] = {
        "inputs": network.inputs,
        "d": network.outputs,
        "width": network.width,
        "depth": network.depth,
    }
    found |= {name: True for name in _FLAGS if getattr(network, name)}
    if network.bounds is not None:
        found |= dict(zip(("low", "high"), network.bounds))
    return found


def network_from(where: str, described: Mapping[str, Any], most: int) -> Network:
    """The described network, which may have no more than `most` weights."""
    values = dict(described)
    inputs, d = values.pop("inputs", 1), values.pop("d", 1)
    width, depth = values.get("width", 1), values.get("depth", 1)
    if max(inputs, d, width * depth, width * d) > most:
        raise ResultError(f"`{where}` has larger arrays than the file has numbers for.")
    bounds = (values.pop("low", None), values.pop("high", None))
    if bounds != (None, None):
        values["bounds"] = bounds
    unknown = [name for name in values if name not in ("bounds", "width", "depth")]
    unknown = [name for name in unknown if name not in _FLAGS]
    if unknown:
        raise ResultError(f"`{where}` has the unknown property {unknown[0]!r}.")
    try:
        return Network(**values, outputs=d).sized(inputs)
    except (TypeError, ValueError) as error:
        raise ResultError(f"`{where}`: {error}") from None


def scales_of(problem: Problem) -> list[dict[str, Any]]:
    """The scales of each network of a problem, in its order."""
    return [
        {name: np.asarray(getattr(network, name)) for name in _SCALES}
        for network in networks_in(problem)
    ]


def with_scales(problem: Problem, saved: Sequence[Mapping[str, Any]]) -> Problem:
    """The problem with the saved scales of its networks."""
    networks = networks_in(problem)
    if len(saved) != len(networks):
        raise ResultError(
            f"The problem has {len(networks)} networks, but the file {len(saved)}."
        )
    for network, own in zip(networks, saved):
        shapes = {name: getattr(network, name).shape for name in _SCALES}
        if shapes != {name: own[name].shape for name in _SCALES}:
            raise ResultError("The scales of a network have the wrong sizes.")
    return with_networks(
        problem,
        [
            network.scaled(*(own[name] for name in _SCALES))
            for network, own in zip(networks, saved)
        ],
    )
