"""Names, bounds, ties: a problem's parameters as one free vector, and back.

Every floating-point array of a problem is a parameter. Its name is its path, with an
index where it has more than one element: `tau`, `rhs.theta_0`, `history.b[1]`. The
shortest ending of the path that is unique is shown, and accepted: `theta_0`, `b[1]`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._util.errors import did_you_mean
from .free_parameters import FreeParameters, ParameterArray
from .priors import AbstractPrior
from .problem import Problem


@final
@dataclass(frozen=True)
class Parameter:
    """A parameter that is learned: where it starts and what it may be.

    `start` is a number (by default the problem's own) or `"random"`, uniform between
    the bounds. Gradient descent keeps bounds by transformation, one by a logarithm, two
    by a logistic curve; least squares can end on them. `prior` is what is known of the
    parameter beforehand, a `Gaussian` or a `LogNormal`, for least squares.

    >>> Parameter(start=1.0, lower=0.1, upper=9.0).upper
    9.0
    """

    start: Any = None
    lower: float | None = None
    upper: float | None = None
    prior: AbstractPrior | None = None

    def __post_init__(self):
        if not (self.prior is None or isinstance(self.prior, AbstractPrior)):
            raise TypeError(
                "`prior` must be a `Gaussian(mean, sd)` or a `LogNormal(median, "
                f"factor)`, but got {self.prior!r}."
            )


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


def parameter_arrays(
    problem: Problem, tied: Collection[str] = ()
) -> list[ParameterArray]:
    """The arrays of parameters of a problem, in the order of its tree.

    Those that are `tied` to others, given by their full names, leave short names to the
    others: where `history.K` is tied to `rhs.K`, that is `K`."""
    arrays = eqx.filter(problem, eqx.is_inexact_array)
    found = jax.tree_util.tree_flatten_with_path(arrays)[0]
    names = [jax.tree_util.keystr(path).lstrip(".") for path, _ in found]
    # A full name as short as `tau` is never given to another.
    kept = [name for name in names if name not in tied or "." not in name]
    result, first = [], 0
    for (_, array), name in zip(found, names):
        rivals = kept if name in kept else [*kept, name]
        each = ParameterArray(name, _shorten(name, rivals), jnp.shape(array), first)
        result.append(each)
        first += each.size
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


def parameter_vector(problem: Problem) -> np.ndarray:
    """Every parameter as one vector."""
    arrays = jax.tree.leaves(eqx.filter(problem, eqx.is_inexact_array))
    return np.concatenate([np.ravel(np.asarray(array)) for array in arrays])


def parameter_values(problem: Problem) -> dict[str, float]:
    """Every parameter of a problem by its short name.

    >>> import ddefind as dd
    >>> dd.parameter_values(dd.Problem(dd.models.Logistic(2, 1), dd.Constant(3), 0.5))
    {'theta_0': 2.0, 'theta_1': 1.0, 'b': 3.0, 'tau': 0.5}
    """
    names = [
        name for each in parameter_arrays(problem) for name in each.elements(each.short)
    ]
    return dict(zip(names, parameter_vector(problem).tolist()))


def free_parameters(
    problem: Problem,
    parameters: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    partial: bool = False,
) -> tuple[FreeParameters, Problem, np.ndarray]:
    """The layout of a problem's free parameters, the problem with all values in place,
    and the free vector to start from.

    What `parameters` does not name is learned, without bounds, from the problem's own
    value. A number stands for `Parameter(start=number)`. If starts may be `partial`,
    NaN stands for one that is not known, and a problem's own value that is not within
    the bounds is taken for such.
    """
    settings = parameters or {}
    tied = {key for key, setting in settings.items() if isinstance(setting, Tied)}
    draft = _Draft(
        parameter_arrays(problem, tied),
        parameter_vector(problem),
        np.random.default_rng(seed),
    )
    for key, setting in settings.items():
        draft.set(key, setting)
    names, start = draft.names, draft.start
    role = _follow(draft.role, names)
    free = np.flatnonzero(role == np.arange(len(role)))
    _check_finite(names, start, np.flatnonzero(role < 0))
    known = draft.forget_outside(free) if partial else free
    _check_starts(names, start, draft.lower, draft.upper, known)
    _check_tau(names, start, role)
    position = np.full(len(role) + 1, -1)
    position[free] = np.arange(len(free))
    start = np.where(role >= 0, start[role], start)
    result = FreeParameters(
        tuple(draft.arrays),
        tuple(names[e] for e in free),
        tuple(position[role].tolist()),
        tuple(np.where(role >= 0, role, np.arange(len(role))).tolist()),
        tuple(draft.lower[free].tolist()),
        tuple(draft.upper[free].tolist()),
    )
    return result, with_values(problem, start), result.inverse(start[free])


@final
class _Draft:
    """A layout under way: what the settings say of each element.

    `role[e]` is e where the element is free, another's number where it is tied to that,
    and -1 where it is fixed."""

    def __init__(self, found: list[ParameterArray], start: np.ndarray, random):
        size = len(start)
        self.arrays, self.start, self.random = found, start, random
        self.names = [name for each in found for name in each.elements(each.short)]
        self.lower, self.upper = np.full(size, -np.inf), np.full(size, np.inf)
        self.role = np.arange(size)
        self.named, self.given = np.zeros(size, bool), np.zeros(size, bool)

    def set(self, key: str, setting: Any) -> None:
        where = find(key, self.arrays)
        if np.any(self.named[where]):
            raise ValueError(f"`parameters` sets {key!r} twice, under two names.")
        self.named[where] = True
        if isinstance(setting, (int, float, np.generic, np.ndarray, list, tuple)):
            setting = Parameter(start=setting)
        if isinstance(setting, Parameter):
            _set_bounds(key, setting, where, self.lower, self.upper)
            _set_start(key, setting, where, self.start, self.random)
            self.given[where] = setting.start is not None
        elif isinstance(setting, Fixed):
            self.role[where] = -1
            if setting.value is not None:
                self.start[where] = numbers(key, setting.value, len(where))
        elif isinstance(setting, Tied):
            self._tie(key, setting.to, where)
        else:
            raise TypeError(
                f"`parameters[{key!r}]` must be a Parameter, Fixed, Tied or a number, "
                f"but got {setting!r}."
            )

    def _tie(self, key: str, name: str, where: np.ndarray) -> None:
        to = find(name, self.arrays)
        if len(to) not in (1, len(where)) or set(to) & set(where):
            raise ValueError(
                f"`parameters[{key!r}]` cannot be tied to {name!r}: they have "
                f"{len(where)} and {len(to)} elements; they must not overlap."
            )
        self.role[where] = to

    def forget_outside(self, free: np.ndarray) -> np.ndarray:
        """Own values not within their bounds are no starts; the elements that have
        one."""
        inside = (self.lower < self.start) & (self.start < self.upper)
        unknown = free[~(inside | self.given)[free]]
        self.start[unknown] = np.nan
        return np.setdiff1d(free, unknown)


def with_values(problem: Problem, vector: np.ndarray) -> Problem:
    """The problem with every parameter taken from one vector."""
    parameters, rest = eqx.partition(problem, eqx.is_inexact_array)
    arrays = [
        jnp.asarray(vector[each.first : each.first + each.size].reshape(each.shape))
        for each in parameter_arrays(problem)
    ]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(parameters), arrays), rest)


def find(key: str, found: list[ParameterArray]) -> np.ndarray:
    """The elements that a name stands for."""
    for each in found:
        if key == each.name:
            return np.arange(each.first, each.first + each.size)
    # The name that is shown may be an ending of one that is tied to it as well.
    matches = _matches(key, found, lambda each: [each.short])
    matches = matches or _matches(key, found, _endings)
    if len(matches) == 1:
        return matches[0]
    if matches:
        full = [each.name for each in found if each.name.split(".")[-1] in key]
        raise ValueError(
            f"{key!r} could mean any of {', '.join(full)}: give the full name."
        )
    known = [n for each in found for n in (each.short, each.name)]
    known += [n for each in found if each.size > 1 for n in each.elements(each.short)]
    raise ValueError(
        f"There is no parameter {key!r}.{did_you_mean(key, dict.fromkeys(known))}"
    )


def _endings(each: ParameterArray) -> list[str]:
    parts = each.name.split(".")
    return [".".join(parts[begin:]) for begin in range(len(parts))]


def _matches(key: str, found: list[ParameterArray], endings) -> list[np.ndarray]:
    """The elements of each array that `key` names by one of its `endings`."""
    matches = []
    for each in found:
        for ending in endings(each):
            if key == ending:
                matches.append(np.arange(each.first, each.first + each.size))
            elif each.size > 1 and key in (elements := each.elements(ending)):
                matches.append(np.array([each.first + elements.index(key)]))
    return matches


def numbers(key: str, value: Any, size: int) -> np.ndarray:
    """One finite number for each of a parameter's elements."""
    try:
        found = np.asarray(value, dtype=float).ravel()
    except (TypeError, ValueError):
        raise TypeError(f"{key!r} needs a number, but got {value!r}.") from None
    if found.size not in (1, size) or not np.all(np.isfinite(found)):
        wanted = "one finite number" + (f" or {size}" if size > 1 else "")
        raise ValueError(f"{key!r} needs {wanted}, but got {value}.")
    return found if found.size == size else np.full(size, found[0])


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
        start[where] = numbers(key, setting.start, len(where))


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


def _check_finite(names, start, fixed) -> None:
    for e in fixed:
        if not np.isfinite(start[e]):
            raise ValueError(
                f"{names[e]!r} is fixed, but has no value: write Fixed(1.0), say."
            )


def _check_starts(names, start, lower, upper, free) -> None:
    for e in free:
        if not np.isfinite(start[e]):
            raise ValueError(
                f"{names[e]!r} needs a finite start, but has {start[e]}: give one in "
                f"`parameters`, as {{{names[e]!r}: 1.0}}."
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
