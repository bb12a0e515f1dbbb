"""Which parameters are weights of a network: tables do not list them one by one.

An array belongs to a network if it is inside of a `Network`, of a layer of
`equinox.nn`, or of a layer of `torch.nn`. An array with very many elements is treated
in the same way."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax

from .._util.arrays import is_parameter
from .free_parameters import ParameterArray
from .network import Network, is_network
from .parameters import name_endings, parameter_arrays
from .problem import Problem

# An array with more elements than this is left out of tables.
_MANY = 30
# The first word of a network's name; other large arrays begin otherwise.
_NETWORK = "network "
# The parts of a problem, which are left out of the names of networks in them.
_PARTS = ("rhs", "history", "initial", "observe")

# The indices of weights in a list of names, by their owner: "network `g`".
Networks = dict[str, tuple[int, ...]]


def networks_of(problem: Problem, names: Sequence[str]) -> Networks:
    """Return the indices of weights in `names`, the parameters of a problem, by
    network.

    >>> import ddefind as dd
    >>> past = dd.NeuralHistory(1, width=2, depth=1)
    >>> problem = dd.Problem(dd.models.Logistic(1, 2), past, tau=0.5)
    >>> names = list(dd.parameter_values(problem))
    >>> networks_of(problem, names)
    {'network `history`': (2, 3, 4, 5, 6, 7, 8)}
    """
    place = {name: index for index, name in enumerate(names)}
    found: dict[str, list[int]] = {}
    paths = jax.tree_util.tree_flatten_with_path(eqx.filter(problem, is_parameter))[0]
    for (path, _), array in zip(paths, parameter_arrays(problem)):
        owner = _owner(problem, path)
        if owner is None and array.size > _MANY:
            owner = f"array `{_shortened(array.name)}`"
        if owner is None:
            continue
        for element in zip(*map(array.elements, name_endings(array.name))):
            index = next((place[name] for name in element if name in place), None)
            if index is not None:
                found.setdefault(owner, []).append(index)
    return {owner: tuple(indices) for owner, indices in found.items()}


def weights_of(problem: Problem, names: Sequence[str]) -> list[int]:
    """Return the indices of all weights of networks in `names`."""
    networks = networks_of(problem, names).items()
    return [j for owner, js in networks if owner.startswith(_NETWORK) for j in js]


def count_weights(
    networks: Networks, determined: Mapping[str, float] | None = None
) -> list[str]:
    """Return a line for each network: "network `g`: 33 weights"; or "network `g`: 6 of
    33 weights determined by the data", if `determined` has the number."""
    lines = []
    for owner, indices in networks.items():
        what = "weights" if owner.startswith(_NETWORK) else "elements"
        count = f"{len(indices)} {what}"
        if determined is not None and owner in determined:
            count = f"{determined[owner]:.0f} of {count} determined by the data"
        lines.append(f"{owner}: {count}")
    return lines


class NamedNetwork(NamedTuple):
    """A network of a problem, its number among them, and the arrays of its weights."""

    network: Network
    number: int
    arrays: tuple[ParameterArray, ...]


def named_networks(problem: Problem) -> dict[str, NamedNetwork]:
    """Return the networks of a problem by their names in tables, or by their full names
    where two would have the same.

    >>> import ddefind as dd
    >>> model = dd.equation("x' = NN_a(x(t - tau)) - NN_b(x)")
    >>> list(named_networks(model.problem(tau=1.0, b=0.5)))
    ['NN_a', 'NN_b']
    """
    parameters = eqx.filter(problem, is_parameter)
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(parameters)[0]]
    arrays = list(zip(paths, parameter_arrays(problem)))
    leaves = jax.tree_util.tree_flatten_with_path(problem, is_leaf=is_network)[0]
    places = [(path, leaf) for path, leaf in leaves if is_network(leaf)]
    full = [jax.tree_util.keystr(path).lstrip(".") for path, _ in places]
    short = [_shortened(name) for name in full]
    found = {}
    for number, (path, network) in enumerate(places):
        name = short[number] if short.count(short[number]) == 1 else full[number]
        inside = tuple(array for at, array in arrays if at[: len(path)] == path)
        found[name] = NamedNetwork(network, number, inside)
    return found


def network_name(owner: str) -> str:
    """Return the name of a network alone: `g` of "network `g`"."""
    return owner.partition("`")[2].removesuffix("`")


def named_indices(count: int, networks: Networks) -> list[int]:
    """Return the indices of the parameters that stand in tables."""
    weights = {index for indices in networks.values() for index in indices}
    return [index for index in range(count) if index not in weights]


def without_weights(sentence: str, names: Sequence[str], networks: Networks) -> str:
    """Return a sentence with "weights of network `g`" in place of a list of them.

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


def _owner(problem: Problem, path: tuple[Any, ...]) -> str | None:
    """Return the network that the array at this path belongs to, or None."""
    node: Any = problem
    for depth, key in enumerate(path):
        is_layer = type(node).__module__.startswith("equinox.nn")
        if depth > 0 and (is_network(node) or is_layer):
            inside = jax.tree_util.keystr(path[:depth]).lstrip(".")
            return f"{_NETWORK}`{_shortened(inside)}`"
        if hasattr(node, "network_of"):
            inside = node.network_of(key.name)
            if inside is None:
                return None
            begin = jax.tree_util.keystr(path[:depth]).lstrip(".")
            return f"{_NETWORK}`{_shortened(f'{begin}.{inside}'.rstrip('.'))}`"
        node = _child(node, key)
    return None


def _child(node: Any, key: Any) -> Any:
    if isinstance(key, jax.tree_util.GetAttrKey):
        return getattr(node, key.name)
    if isinstance(key, jax.tree_util.DictKey):
        return node[key.key]
    if isinstance(key, jax.tree_util.SequenceKey):
        return node[key.idx]
    return None


def _shortened(path: str) -> str:
    """Return the name of a network: `g` for `rhs.g.network` or `rhs.g[0]`."""
    path = re.sub(r"\[\d+\]$", "", path).removesuffix(".network")
    for part in _PARTS:
        path = path.removeprefix(f"{part}.")
    return path
