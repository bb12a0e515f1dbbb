"""The names of a problem's parameters.

Every floating-point array of a problem is a parameter. Its full name is the path of the
array in the problem, with an index for each element if it has several: `tau`,
`rhs.theta_0`, `history.b[1]`. Its short name is the shortest ending of the path that no
other parameter shares: `theta_0`, `b[1]`. Short names are displayed, and both are
accepted.
"""

import re
from collections.abc import Collection
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._util.arrays import is_parameter
from .delays import DelayRole, is_delay
from .free_parameters import ParameterArray, is_name
from .problem import Problem

# A part of a full name: a word with its indices, which may be texts: `tau['a.b']`.
_NAME_PART = re.compile(
    r"""(?: [^.\[] | \[ (?: '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | [^'"\]]* ) \] )+""",
    re.VERBOSE,
)


# What the full names of the noise's parameters begin with.
_NOISE = "noise."
# The name of a component, `x[0]`, which can stand between dots.
_COMPONENT = re.compile(r"\w+\[\d+\]")


def parameter_arrays(
    problem: Problem, tied: Collection[str] = ()
) -> list[ParameterArray]:
    """The arrays of parameters of a problem, in the order of its tree.

    `tied` has the full names of the arrays that are tied to others. They do not compete
    for short names: if `history.K` is tied to `rhs.K`, then `rhs.K` is called `K`."""
    parameters = eqx.filter(problem, is_parameter)
    paths_and_arrays = jax.tree_util.tree_flatten_with_path(parameters)[0]
    names = [_full_name(path) for path, _ in paths_and_arrays]
    # A full name without a dot, such as `tau`, always keeps its name.
    competing = [
        name
        for name in names
        if (name not in tied or "." not in name) and not _is_noise(name)
    ]
    roles = _roles(problem)
    result, first = [], 0
    for (_, array), name in zip(paths_and_arrays, names):
        others = competing if name in competing else [*competing, name]
        short = name.removeprefix(_NOISE) if _is_noise(name) else _shorten(name, others)
        short = name if short in names else short
        role = roles.get(name)
        entry = ParameterArray(name, short, jnp.shape(array), first, role)
        result.append(entry)
        first += entry.size
    return result


def noise_parameter(quantity: str, field: str) -> str:
    """The full name of a parameter of the noise of a quantity: `noise.x.sd`."""
    keys = jax.tree_util.GetAttrKey("noise"), jax.tree_util.DictKey(quantity)
    return f"{_full_name(keys)}.{field}"


def _is_noise(name: str) -> bool:
    """Whether a full name is that of a parameter of the noise. It is called `x.sd`,
    with the name of the quantity, and does not compete with others for short names."""
    return name.startswith((_NOISE, "noise["))


def _roles(problem: Problem) -> dict[str, DelayRole]:
    """The full names of the parameters that are delays by themselves, or shapes."""
    roles: dict[str, DelayRole] = {}
    paths = jax.tree_util.tree_flatten_with_path(problem.tau, is_leaf=is_delay)[0]
    for path, leaf in paths:
        name = _full_name((jax.tree_util.GetAttrKey("tau"), *path))
        if is_delay(leaf):
            roles |= {f"{name}.{field}": role for field, role in leaf.roles().items()}
        else:
            roles[name] = "delay"
    return roles


def _full_name(path: tuple[Any, ...]) -> str:
    """The name of an array by its path in the problem: `rhs.theta_0`, `tau.growth`."""
    is_noise = jax.tree_util.keystr(path[:1]) == ".noise"
    parts = [
        f".{key.key}"
        if isinstance(key, jax.tree_util.DictKey)
        and (is_name(str(key.key)) or (is_noise and _COMPONENT.fullmatch(str(key.key))))
        else jax.tree_util.keystr((key,))
        for key in path
    ]
    return "".join(parts).lstrip(".")


def name_parts(name: str) -> list[str]:
    """The parts of a full name, between its dots. Dots inside of [...] do not count.

    >>> name_parts("tau['0.5 * lag'].lag")
    ["tau['0.5 * lag']", 'lag']
    """
    return _NAME_PART.findall(name)


def _shorten(name: str, names: list[str]) -> str:
    """The shortest ending of `name` that is an ending of no other of the `names`."""
    parts = name_parts(name)
    for begin in range(len(parts) - 1, 0, -1):
        if parts[begin].isdigit():
            continue  # The number of a layer means little without the network's name.
        short = ".".join(parts[begin:])
        if sum(other == short or other.endswith("." + short) for other in names) == 1:
            return short
    return name


def element_names(arrays: list[ParameterArray]) -> list[str]:
    """The short name of each element of the arrays."""
    return [name for array in arrays for name in array.elements(array.short)]
