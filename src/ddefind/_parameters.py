"""Names, bounds, ties: a problem's parameters as one free vector, and back.

Every floating-point array of a problem is a parameter. Its name is its path, with an
index where it has more than one element: `tau`, `rhs.theta_0`, `history.b[1]`. The
shortest ending of the path that is unique is shown, and accepted: `theta_0`, `b[1]`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._errors import did_you_mean
from ._layout import Layout, Leaf
from ._problem import Problem


@final
@dataclass(frozen=True)
class Parameter:
    """A parameter that is learned: where it starts and what it may be.

    `start` is a number (by default the problem's own) or `"random"`, uniform between
    the bounds. Bounds hold by transformation: one bound by a logarithm, two by a
    logistic curve, so that every step of an optimiser keeps them.

    >>> Parameter(start=1.0, lower=0.1, upper=9.0).upper
    9.0
    """

    start: Any = None
    lower: float | None = None
    upper: float | None = None


@final
@dataclass(frozen=True)
class Fixed:
    """A parameter that is not learned: at `value`, or at the problem's own."""

    value: Any = None


@final
@dataclass(frozen=True)
class Tied:
    """A parameter that always equals another, named `to`."""

    to: str


def leaves(problem: Problem) -> list[Leaf]:
    """The arrays of parameters of a problem, in the order of its tree."""
    arrays = eqx.filter(problem, eqx.is_inexact_array)
    found = jax.tree_util.tree_flatten_with_path(arrays)[0]
    names = [jax.tree_util.keystr(path).lstrip(".") for path, _ in found]
    result, first = [], 0
    for (_, array), name in zip(found, names):
        leaf = Leaf(name, _shorten(name, names), jnp.shape(array), first)
        result.append(leaf)
        first += leaf.size
    return result


def _shorten(name: str, names: list[str]) -> str:
    parts = name.split(".")
    for begin in range(len(parts) - 1, 0, -1):
        if parts[begin].isdigit():
            continue  # The number of a layer says little without the network's name.
        short = ".".join(parts[begin:])
        if sum(other == short or other.endswith("." + short) for other in names) == 1:
            return short
    return name


def values(problem: Problem) -> np.ndarray:
    """Every parameter as one vector."""
    arrays = jax.tree.leaves(eqx.filter(problem, eqx.is_inexact_array))
    return np.concatenate([np.ravel(np.asarray(array)) for array in arrays])


def parameter_values(problem: Problem) -> dict[str, float]:
    """Every parameter of a problem by its short name.

    >>> import ddefind as dd
    >>> dd.parameter_values(dd.Problem(dd.models.Logistic(2, 1), dd.Constant(3), 0.5))
    {'theta_0': 2.0, 'theta_1': 1.0, 'b': 3.0, 'tau': 0.5}
    """
    names = [name for leaf in leaves(problem) for name in leaf.elements(leaf.short)]
    return dict(zip(names, values(problem).tolist()))


def layout(
    problem: Problem,
    parameters: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
) -> tuple[Layout, Problem, np.ndarray]:
    """The layout of a problem's free parameters, the problem with all values in place,
    and the free vector to start from.

    What `parameters` does not name is learned, without bounds, from the problem's own
    value. A number stands for `Parameter(start=number)`.
    """
    found = leaves(problem)
    start = values(problem)
    size = len(start)
    names = [name for leaf in found for name in leaf.elements(leaf.short)]
    lower, upper = np.full(size, -np.inf), np.full(size, np.inf)
    role = np.arange(size)  # itself: free; another element: tied to it; -1: fixed
    named = np.zeros(size, bool)
    random = np.random.default_rng(seed)
    for key, setting in (parameters or {}).items():
        where = _find(key, found)
        if np.any(named[where]):
            raise ValueError(f"`parameters` sets {key!r} twice, under two names.")
        named[where] = True
        if isinstance(setting, (int, float, np.generic, np.ndarray, list, tuple)):
            setting = Parameter(start=setting)
        if isinstance(setting, Parameter):
            _set_bounds(key, setting, where, lower, upper)
            _set_start(key, setting, where, start, random)
        elif isinstance(setting, Fixed):
            role[where] = -1
            if setting.value is not None:
                start[where] = _numbers(key, setting.value, len(where))
        elif isinstance(setting, Tied):
            to = _find(setting.to, found)
            if len(to) not in (1, len(where)) or set(to) & set(where):
                raise ValueError(
                    f"`parameters[{key!r}]` cannot be tied to {setting.to!r}: they "
                    f"have {len(where)} and {len(to)} elements; they must not overlap."
                )
            role[where] = to
        else:
            raise TypeError(
                f"`parameters[{key!r}]` must be a Parameter, Fixed, Tied or a number, "
                f"but got {setting!r}."
            )
    role = _follow(role, names)
    free = np.flatnonzero(role == np.arange(size))
    _check_starts(names, start, lower, upper, free)
    _check_tau(names, start, role)
    position = np.full(size + 1, -1)
    position[free] = np.arange(len(free))
    start = np.where(role >= 0, start[role], start)
    result = Layout(
        tuple(found),
        tuple(names[e] for e in free),
        tuple(position[role].tolist()),
        tuple(lower[free].tolist()),
        tuple(upper[free].tolist()),
    )
    return result, with_values(problem, start), result.inverse(start[free])


def with_values(problem: Problem, vector: np.ndarray) -> Problem:
    """The problem with every parameter taken from one vector."""
    parameters, rest = eqx.partition(problem, eqx.is_inexact_array)
    arrays = [
        jnp.asarray(vector[leaf.first : leaf.first + leaf.size].reshape(leaf.shape))
        for leaf in leaves(problem)
    ]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(parameters), arrays), rest)


def _find(key: str, found: list[Leaf]) -> np.ndarray:
    """The elements that a name stands for."""
    for leaf in found:
        if key == leaf.name:
            return np.arange(leaf.first, leaf.first + leaf.size)
    matches = []
    for leaf in found:
        endings = {leaf.name, leaf.short} | {
            ".".join(leaf.name.split(".")[begin:])
            for begin in range(leaf.name.count(".") + 1)
        }
        for ending in endings:
            if key == ending:
                matches.append(np.arange(leaf.first, leaf.first + leaf.size))
                break
            elements = leaf.elements(ending)
            if leaf.size > 1 and key in elements:
                matches.append(np.array([leaf.first + elements.index(key)]))
                break
    if len(matches) == 1:
        return matches[0]
    if matches:
        full = [leaf.name for leaf in found if leaf.name.split(".")[-1] in key]
        raise ValueError(
            f"`parameters[{key!r}]` could mean any of {', '.join(full)}: give the full "
            "name."
        )
    known = [n for leaf in found for n in (leaf.short, leaf.name)]
    known += [n for leaf in found if leaf.size > 1 for n in leaf.elements(leaf.short)]
    raise ValueError(
        f"There is no parameter {key!r}.{did_you_mean(key, dict.fromkeys(known))}"
    )


def _numbers(key: str, value: Any, size: int) -> np.ndarray:
    value = np.asarray(value, dtype=float)
    if value.size not in (1, size) or not np.all(np.isfinite(value)):
        raise ValueError(
            f"`parameters[{key!r}]` needs one finite number or {size}; got {value}."
        )
    return (
        value.ravel() if value.size == size else np.full(size, float(value.ravel()[0]))
    )


def _set_bounds(key, setting: Parameter, where, lower, upper) -> None:
    if setting.lower is not None:
        lower[where] = setting.lower
    if setting.upper is not None:
        upper[where] = setting.upper
    if np.any(np.isnan(lower[where]) | np.isnan(upper[where])) or np.any(
        lower[where] >= upper[where]
    ):
        raise ValueError(
            f"`parameters[{key!r}]` needs lower < upper, but got "
            f"{setting.lower} and {setting.upper}."
        )


def _set_start(key, setting: Parameter, where, start, random) -> None:
    if isinstance(setting.start, str):
        if setting.start != "random":
            raise ValueError(
                f'`parameters[{key!r}]`: `start` is a number or "random", not '
                f"{setting.start!r}."
            )
        if setting.lower is None or setting.upper is None:
            raise ValueError(
                f"`parameters[{key!r}]`: a random start needs `lower` and `upper`."
            )
        start[where] = random.uniform(setting.lower, setting.upper, len(where))
    elif setting.start is not None:
        start[where] = _numbers(key, setting.start, len(where))


def _follow(role: np.ndarray, names: list[str]) -> np.ndarray:
    """Ties of ties end at a free or fixed element; a circle is refused."""
    own = np.arange(len(role))
    end = role.copy()
    for _ in range(len(role)):
        moved = np.where(end >= 0, role[end], end)
        # An element tied to a fixed one keeps pointing at it: its constant is there.
        moved = np.where((moved < 0) & (end != own) & (end >= 0), end, moved)
        if np.array_equal(moved, end):
            return end
        end = moved
    circle = [names[e] for e in np.flatnonzero((end >= 0) & (role[end] != end))]
    raise ValueError(
        f"Parameters are tied in a circle: {', '.join(map(repr, circle))}."
    )


def _check_starts(names, start, lower, upper, free) -> None:
    for e in free:
        if not np.isfinite(start[e]):
            raise ValueError(
                f"The start of {names[e]!r} must be finite; got {start[e]}."
            )
        if not lower[e] < start[e] < upper[e]:
            raise ValueError(
                f"The start of {names[e]!r}, {start[e]:g}, must lie between its bounds "
                f"{lower[e]:g} and {upper[e]:g}. Move the bounds or give another "
                "`start`."
            )


def _check_tau(names, start, role) -> None:
    tau = names.index("tau")
    if start[tau if role[tau] < 0 else role[tau]] <= 0:
        raise ValueError(f"`tau` must start positive, but got {start[tau]:g}.")
