"""Which parameters are weights of a network: tables do not list them one by one.

An array belongs to a network if it is inside of a `Network`, of a layer of
`equinox.nn`, or of a layer of `torch.nn`. An array with very many elements is treated
in the same way, whatever it is."""

import re
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax

from .._util.arrays import is_parameter
from .network import Network
from .parameter_names import name_parts, parameter_arrays
from .problem import Problem

# An array with more elements than this does not stand in a table.
_MANY = 30
# The parts of a problem, which are left out of the name of what is inside.
_PARTS = ("rhs", "history", "initial", "observe")

# The indices of weights in a list of names, by what they belong to: "network `g`".
Networks = dict[str, tuple[int, ...]]


def networks_of(problem: Problem, names: Sequence[str]) -> Networks:
    """Where weights stand in `names`, the names of parameters of a problem.

    >>> import ddefind as dd
    >>> past = dd.Neural(1, width=2, depth=1)
    >>> problem = dd.Problem(dd.models.Logistic(1, 2), past, tau=0.5)
    >>> names = list(dd.parameter_values(problem))
    >>> networks_of(problem, names)
    {'network `history`': (2, 3, 4, 5, 6, 7, 8)}
    """
    place = {name: index for index, name in enumerate(names)}
    found: dict[str, list[int]] = {}
    paths = jax.tree_util.tree_flatten_with_path(eqx.filter(problem, is_parameter))[0]
    for (path, _), array in zip(paths, parameter_arrays(problem)):
        owner = _owner(problem, path, array.name)
        if owner is None and array.size > _MANY:
            owner = f"array `{_shortened(array.name)}`"
        if owner is None:
            continue
        parts = name_parts(array.name)
        endings = [".".join(parts[begin:]) for begin in range(len(parts))]
        for element in zip(*map(array.elements, endings)):
            index = next((place[name] for name in element if name in place), None)
            if index is not None:
                found.setdefault(owner, []).append(index)
    return {owner: tuple(indices) for owner, indices in found.items()}


def count_weights(networks: Networks) -> list[str]:
    """A line for each network: "network `g`: 33 weights"."""
    return [
        f"{owner}: {len(indices)} {'weights' if owner[0] == 'n' else 'elements'}"
        for owner, indices in networks.items()
    ]


def named_indices(count: int, networks: Networks) -> list[int]:
    """The indices of the parameters that stand in tables."""
    weights = {index for indices in networks.values() for index in indices}
    return [index for index in range(count) if index not in weights]


def without_weights(sentence: str, names: Sequence[str], networks: Networks) -> str:
    """A sentence in which "weights of network `g`" stand for a list of them.

    >>> names, networks = ["r", "w[0]", "w[1]"], {"network `g`": (1, 2)}
    >>> without_weights("Of `r`, `w[0]`, `w[1]` only one is.", names, networks)
    'Of `r`, weights of network `g` only one is.'
    """
    for owner, indices in networks.items():
        name = "|".join(re.escape(f"`{names[index]}`") for index in indices)
        listed = rf"(?:{name})(?:, (?:{name}))*"
        sentence = re.sub(
            listed, lambda _, owner=owner: f"weights of {owner}", sentence
        )
    return sentence


def _owner(problem: Problem, path: tuple[Any, ...], name: str) -> str | None:
    """The network that an array belongs to, by its path; None without one."""
    node: Any = problem
    for depth, key in enumerate(path):
        if depth > 0 and _is_network(node):
            inside = jax.tree_util.keystr(path[:depth]).lstrip(".")
            return f"network `{_shortened(inside)}`"
        if hasattr(node, "network_of"):
            inside = node.network_of(key.name)
            if inside is None:
                return None
            begin = jax.tree_util.keystr(path[:depth]).lstrip(".")
            return f"network `{_shortened(f'{begin}.{inside}'.rstrip('.'))}`"
        node = _child(node, key)
    return None


def _is_network(node: Any) -> bool:
    return isinstance(node, Network) or type(node).__module__.startswith("equinox.nn")


def _child(node: Any, key: Any) -> Any:
    if isinstance(key, jax.tree_util.GetAttrKey):
        return getattr(node, key.name)
    if isinstance(key, jax.tree_util.DictKey):
        return node[key.key]
    if isinstance(key, jax.tree_util.SequenceKey):
        return node[key.idx]
    return None


def _shortened(path: str) -> str:
    """The name of a network: `rhs.g.network` is `g`, and `rhs.layers[0]` `layers`."""
    path = re.sub(r"\[\d+\]$", "", path).removesuffix(".network")
    for part in _PARTS:
        path = path.removeprefix(f"{part}.")
    return path
