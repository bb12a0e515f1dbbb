"""The parameters of a problem: their names, their values, and the settings for a fit.

Every floating-point array of a problem is a parameter. Its full name is the path of the
array in the problem, with an index for each element if it has several: `tau`,
`rhs.theta_0`, `history.b[1]`. Its short name is the shortest ending of the path that no
other parameter shares: `theta_0`, `b[1]`. Short names are displayed, and both are
accepted.

By default a fit learns each parameter from its present value. `Parameter`, `Fixed` and
`Tied` change that, and `free_parameters` reads these settings. A prior states what is
known about a parameter before the fit: it adds a term to the sum of squares.
"""

import abc
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import log
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._util import wording
from .._util.arrays import is_parameter
from .._util.errors import did_you_mean
from .delays import DELAY, DelayRole, is_delay
from .free_parameters import FreeParameters, ParameterArray, check_name, is_name
from .problem import Problem

# A part of a full name: a word with its indices, which may be texts: `tau['a.b']`.
_NAME_PART = re.compile(
    r"""(?: [^.\[] | \[ (?: '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | [^'"\]]* ) \] )+""",
    re.VERBOSE,
)


# The name of a component, `x[0]`, which can stand between dots.
_COMPONENT = re.compile(r"\w+\[\d+\]")


def parameter_arrays(
    problem: Problem, tied: Collection[str] = ()
) -> list[ParameterArray]:
    """Return the arrays of parameters of a problem, in the order of its tree. `tied`
    has the full names of the arrays that are tied to others. They do not compete for
    short names: if `history.K` is tied to `rhs.K`, then `rhs.K` is called `K`. Nor do
    the parameters of the noise, which are called `x.sd`, with the quantity's name."""
    parameters = eqx.filter(problem, is_parameter)
    roles = _roles(problem)
    arrays, first = [], 0
    for path, array in jax.tree_util.tree_flatten_with_path(parameters)[0]:
        name = _full_name(path)
        role = roles.get(name)
        arrays.append(ParameterArray(name, name, jnp.shape(array), first, role))
        first += arrays[-1].size
    names = [array.name for array in arrays]
    # A full name without a dot, such as `tau`, always keeps its name.
    competing = [
        array.name
        for array in arrays
        if (array.name not in tied or "." not in array.name) and not array.is_noise
    ]

    def short_name(array: ParameterArray) -> str:
        name = array.name
        if array.is_noise:
            short = name.removeprefix("noise.")
        else:
            others = competing if name in competing else [*competing, name]
            short = _shorten(name, others)
        return name if short in names else short

    return [array._replace(short=short_name(array)) for array in arrays]


def noise_parameter(quantity: str, field: str) -> str:
    """Return the full name of a parameter of a quantity's noise: `noise.x.sd`."""
    keys = jax.tree_util.GetAttrKey("noise"), jax.tree_util.DictKey(quantity)
    return f"{_full_name(keys)}.{field}"


def _roles(problem: Problem) -> dict[str, DelayRole]:
    """Return the roles of the parameters that stand in a delay by themselves."""
    roles: dict[str, DelayRole] = {}
    paths = jax.tree_util.tree_flatten_with_path(problem.tau, is_leaf=is_delay)[0]
    for path, leaf in paths:
        name = _full_name((jax.tree_util.GetAttrKey("tau"), *path))
        if is_delay(leaf):
            roles |= {f"{name}.{field}": role for field, role in leaf.roles().items()}
        else:
            roles[name] = DELAY
    return roles


def _full_name(path: tuple[Any, ...]) -> str:
    """Return the full name of the array at this path: `rhs.theta_0`, `tau.growth`."""
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
    """Return the parts of a full name between its dots, but for dots inside of [...].

    >>> name_parts("tau['0.5 * lag'].lag")
    ["tau['0.5 * lag']", 'lag']
    """
    return _NAME_PART.findall(name)


def _shorten(name: str, names: list[str]) -> str:
    """Return the shortest ending of `name` that is an ending of only one of `names`."""
    parts = name_parts(name)
    for begin in range(len(parts) - 1, 0, -1):
        if parts[begin].isdigit():
            continue  # The number of a layer means little without the network's name.
        short = ".".join(parts[begin:])
        if sum(other == short or other.endswith("." + short) for other in names) == 1:
            return short
    return name


def element_names(arrays: list[ParameterArray]) -> list[str]:
    """Return the short name of each element of the arrays."""
    return [name for array in arrays for name in array.elements(array.short)]


class AbstractPrior(abc.ABC):
    """The base class of priors.

    A prior adds ((g(value) - center) / width)^2 to the sum of squares, whose other
    terms are residuals divided by the standard deviation of the noise. The function g
    is the logarithm if `is_log`, and the identity otherwise."""

    is_log: ClassVar[bool]

    @property
    @abc.abstractmethod
    def center(self) -> float:
        """The mean of g(value)."""

    @property
    @abc.abstractmethod
    def width(self) -> float:
        """The standard deviation of g(value)."""


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise ValueError(f"`{name}` must be positive and finite, but got {value!r}.")


@final
@dataclass(frozen=True)
class GaussianPrior(AbstractPrior):
    """A Gaussian prior with the given mean and standard deviation `sd`.

    >>> GaussianPrior(mean=2.0, sd=0.5).width
    0.5
    """

    mean: float
    sd: float
    is_log: ClassVar[bool] = False

    def __post_init__(self):
        _check_positive("sd", self.sd)

    @property
    def center(self) -> float:
        return self.mean

    @property
    def width(self) -> float:
        return self.sd


@final
@dataclass(frozen=True)
class LogNormalPrior(AbstractPrior):
    """A log-normal prior: the logarithm of the parameter has a Gaussian prior.

    With a probability of 68% the parameter lies between `median / factor` and
    `median * factor`.

    >>> round(LogNormalPrior(median=2.0, factor=1.5).width, 4)
    0.4055
    """

    median: float
    factor: float
    is_log: ClassVar[bool] = True

    def __post_init__(self):
        _check_positive("median", self.median)
        if not 1 < self.factor < float("inf"):
            raise ValueError(f"`factor` must be above 1, but got {self.factor!r}.")

    @property
    def center(self) -> float:
        return log(self.median)

    @property
    def width(self) -> float:
        return log(self.factor)


# Their first names, which noise models have, too.
Gaussian, LogNormal = GaussianPrior, LogNormalPrior


@final
@dataclass(frozen=True)
class Parameter:
    """A parameter that is learned, with its start value, its bounds and its prior.

    **Arguments**

    - `start`: a number, by default the value in the problem; or `"random"`, which draws
      a number uniformly between the bounds.
    - `lower`, `upper`: bounds. Gradient descent stays strictly between them, by a
      change of variables: an exponential function for one bound, a logistic function
      for two. Least squares can end on a bound.
    - `prior`: what is known about the parameter before the fit, a `Gaussian` or a
      `LogNormal`. Only least squares uses priors.
    - `per_experiment`: in a study, whether every `Experiment` has a value of its own.
      By default only the history and x(0) do.

    >>> Parameter(start=1.0, lower=0.1, upper=9.0).upper
    9.0
    """

    start: Any = None
    lower: float | None = None
    upper: float | None = None
    prior: AbstractPrior | None = None
    per_experiment: bool | None = None

    def __post_init__(self):
        if not (self.prior is None or isinstance(self.prior, AbstractPrior)):
            raise TypeError(
                "`prior` must be a `Gaussian(mean, sd)` or a `LogNormal(median, "
                f"factor)`, but got {self.prior!r}."
            )


@final
@dataclass(frozen=True)
class Fixed:
    """A parameter that is not learned. It has the given `value`, or the problem's."""

    value: Any = None


@final
@dataclass(frozen=True)
class Tied:
    """A parameter that always equals another one, whose name is `to`."""

    to: str


def parameter_vector(problem: Problem) -> np.ndarray:
    """Return the values of all parameters as one vector."""
    arrays = jax.tree.leaves(eqx.filter(problem, is_parameter))
    vectors = [np.ravel(np.asarray(array)) for array in arrays]
    return np.concatenate(vectors) if vectors else np.zeros(0)


def parameter_values(problem: Problem) -> dict[str, float]:
    """Return the values of all parameters of a problem, by their short names.

    >>> import ddefind as dd
    >>> dd.parameter_values(dd.Problem(dd.models.Logistic(2, 1), dd.Constant(3), 0.5))
    {'theta_0': 2.0, 'theta_1': 1.0, 'b': 3.0, 'tau': 0.5}
    """
    names = element_names(parameter_arrays(problem))
    return dict(zip(names, parameter_vector(problem).tolist()))


def free_parameters(
    problem: Problem,
    parameters: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    partial: bool = False,
) -> tuple[FreeParameters, Problem, np.ndarray]:
    """Read the settings of a fit's parameters.

    Return the map between the problem and its free values; the problem with the fixed
    values and the start values put in; and the unconstrained vector z to start from.

    `parameters` maps names to `Parameter`, `Fixed`, `Tied`, or to a number, which
    stands for `Parameter(start=number)`. A parameter that it does not name is learned,
    without bounds, from its value in the problem. `seed` draws the random starts.

    With `partial=True` start values may be missing: NaN stands for an unknown one, and
    a value of the problem that is not within the bounds counts as missing."""
    settings = parameters or {}
    tied = {key for key, setting in settings.items() if isinstance(setting, Tied)}
    table = _SettingsTable(
        parameter_arrays(problem, tied),
        parameter_vector(problem),
        np.random.default_rng(seed),
    )
    for key, setting in settings.items():
        table.set(key, setting)
    names, start = table.names, table.start
    role = table.role = _resolve_ties(table.role, names)
    free = np.flatnonzero(role == np.arange(len(role)))
    for e in np.flatnonzero(role < 0):
        if not np.isfinite(start[e]):
            raise ValueError(
                f"{names[e]!r} is fixed, but has no value: write Fixed(1.0), say."
            )
    _check_starts(table, table.discard_outside(free) if partial else free)
    _check_delays(table)
    # Role -1 reads the extra last place: fixed elements have no position.
    position = np.full(len(role) + 1, -1)
    position[free] = np.arange(len(free))
    start = np.where(role >= 0, start[role], start)
    result = FreeParameters(
        tuple(table.arrays),
        tuple(names[e] for e in free),
        tuple(position[role].tolist()),
        tuple(np.where(role >= 0, role, np.arange(len(role))).tolist()),
        tuple(table.lower[free].tolist()),
        tuple(table.upper[free].tolist()),
    )
    return result, with_values(problem, start), result.inverse(start[free])


@final
class _SettingsTable:
    """The settings of each element of the parameters.

    `role[e]` is e if the element e is free, the number of another element if it is tied
    to that one, and -1 if it is fixed. `is_set[e]` says whether a setting names the
    element, and `has_start[e]` whether a setting gives its start value."""

    def __init__(
        self,
        arrays: list[ParameterArray],
        start: np.ndarray,
        random: np.random.Generator,
    ):
        size = len(start)
        self.arrays, self.start, self.random = arrays, start, random
        self.names = element_names(arrays)
        self.lower, self.upper = np.full(size, -np.inf), np.full(size, np.inf)
        self.role = np.arange(size)
        self.is_set, self.has_start = np.zeros(size, bool), np.zeros(size, bool)

    def set(self, key: str, setting: Any) -> None:
        """Enter the setting of the parameter that is called `key`."""
        elements = find(key, self.arrays)
        if np.any(self.is_set[elements]):
            raise ValueError(f"{wording.setting(key)} is set twice, under two names.")
        self.is_set[elements] = True
        if isinstance(setting, (int, float, np.generic, np.ndarray, list, tuple)):
            setting = Parameter(start=setting)
        if isinstance(setting, Parameter):
            self._set_bounds(key, setting, elements)
            self._set_start(key, setting, elements)
            self.has_start[elements] = setting.start is not None
        elif isinstance(setting, Fixed):
            self.role[elements] = -1
            if (value := setting.value) is not None:
                self.start[elements] = finite_numbers(key, value, len(elements))
        elif isinstance(setting, Tied):
            targets = find(setting.to, self.arrays)
            if len(targets) not in (1, len(elements)) or set(targets) & set(elements):
                raise ValueError(
                    f"`parameters[{key!r}]` cannot be tied to {setting.to!r}: they "
                    f"have {len(elements)} and {len(targets)} elements; they must not "
                    "overlap."
                )
            self.role[elements] = targets
        else:
            raise TypeError(
                f"`parameters[{key!r}]` must be a Parameter, Fixed, Tied or a number, "
                f"but got {setting!r}."
            )

    def _set_bounds(self, key: str, setting: Parameter, elements: np.ndarray) -> None:
        if setting.lower is not None:
            self.lower[elements] = setting.lower
        if setting.upper is not None:
            self.upper[elements] = setting.upper
        lower, upper = self.lower[elements], self.upper[elements]
        if np.any(np.isnan(lower) | np.isnan(upper)) or np.any(lower >= upper):
            raise ValueError(
                f"{wording.setting(key)} needs lower < upper, but got "
                f"{setting.lower} and {setting.upper}."
            )

    def _set_start(self, key: str, setting: Parameter, elements: np.ndarray) -> None:
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
            bounds = setting.lower, setting.upper
            self.start[elements] = self.random.uniform(*bounds, len(elements))
        elif setting.start is not None:
            self.start[elements] = finite_numbers(key, setting.start, len(elements))

    def discard_outside(self, free: np.ndarray) -> np.ndarray:
        """Set starts outside of the bounds to NaN, and return the `free` others."""
        inside = (self.lower < self.start) & (self.start < self.upper)
        unknown = free[~(inside | self.has_start)[free]]
        self.start[unknown] = np.nan
        return np.setdiff1d(free, unknown)


def with_values(problem: Problem, vector: np.ndarray) -> Problem:
    """Return the problem with the values of all parameters taken from one vector."""
    parameters, rest = eqx.partition(problem, is_parameter)
    arrays = [
        jnp.asarray(vector[array.first : array.first + array.size].reshape(array.shape))
        for array in parameter_arrays(problem)
    ]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(parameters), arrays), rest)


def find(key: str, arrays: list[ParameterArray]) -> np.ndarray:
    """Return the numbers of the elements of a name: the full name of an array or of an
    element, or any unambiguous ending of one."""
    check_name(key, element_names(arrays))
    for array in arrays:
        if key == array.labelled(array.name):
            return np.arange(array.first, array.first + array.size)
    # Short names come first: an array that is tied to another may end in the same way.
    matches = _matches(key, [(array, array.short) for array in arrays])
    matches = matches or _matches(
        key, [(a, ending) for a in arrays for ending in name_endings(a.name)]
    )
    if len(matches) == 1:
        return matches[0]
    if matches:
        candidates = [a.name for a in arrays if name_parts(a.name)[-1] in key]
        raise ValueError(
            f"{key!r} could mean any of {', '.join(candidates)}: give the full name."
        )
    known = [name for array in arrays for name in (array.short, array.name)]
    known += element_names([array for array in arrays if array.size > 1])
    raise ValueError(
        f"There is no parameter {key!r}.{did_you_mean(key, dict.fromkeys(known))}"
    )


def name_endings(name: str) -> list[str]:
    """Return all endings of a full name: `rhs.net.weight`, `net.weight`, `weight`."""
    parts = name_parts(name)
    return [".".join(parts[begin:]) for begin in range(len(parts))]


def _matches(
    key: str, named_arrays: Iterable[tuple[ParameterArray, str]]
) -> list[np.ndarray]:
    """Return the elements that `key` means in each array, if it has the given name."""
    matches = []
    for array, name in named_arrays:
        if key == array.labelled(name):
            matches.append(np.arange(array.first, array.first + array.size))
        elif array.size > 1 and key in (elements := array.elements(name)):
            matches.append(np.array([array.first + elements.index(key)]))
    return matches


def finite_numbers(key: str, value: Any, size: int) -> np.ndarray:
    """Return `value` as `size` finite numbers; a single number stands for all of
    them."""
    try:
        numbers = np.asarray(value, dtype=float).ravel()
    except (TypeError, ValueError):
        raise TypeError(f"{key!r} needs a number, but got {value!r}.") from None
    if numbers.size not in (1, size) or not np.all(np.isfinite(numbers)):
        wanted = "one finite number" + (f" or {size}" if size > 1 else "")
        raise ValueError(f"{key!r} needs {wanted}, but got {value}.")
    return numbers if numbers.size == size else np.full(size, numbers[0])


def _resolve_ties(role: np.ndarray, names: list[str]) -> np.ndarray:
    """Follow chains of ties, so that each element refers to a free or a fixed element,
    which has its value. A cycle of ties is an error."""
    target = role.copy()
    for _ in range(len(role)):
        following = np.where(target >= 0, role[target], target)
        is_tied = target != np.arange(len(role))
        tied_to_fixed = (following < 0) & is_tied & (target >= 0)
        following = np.where(tied_to_fixed, target, following)
        if np.array_equal(following, target):
            return target
        target = following
    cycle = [names[e] for e in np.flatnonzero((target >= 0) & (role[target] != target))]
    raise ValueError(f"Parameters are tied in a circle: {', '.join(map(repr, cycle))}.")


def _check_starts(table: _SettingsTable, free: np.ndarray) -> None:
    names, start, lower, upper = table.names, table.start, table.lower, table.upper
    lacking = [names[e] for e in free if not np.isfinite(start[e])]
    if lacking:
        given = ", ".join(f"{name!r}: 1.0" for name in lacking[:5])
        more = ", ..." if lacking[5:] else ""
        raise ValueError(
            "Gradient descent begins at one point, but there is no start value for "
            f"{', '.join(lacking[:5])}{more}: give it in `parameters`, as "
            f"{{{given}{more}}}. Least squares, which is for up to some hundred "
            "parameters, needs none."
        )
    for e in free:
        if not lower[e] < start[e] < upper[e]:
            raise ValueError(
                f"The start of {names[e]!r}, {start[e]:g}, must lie between its bounds "
                f"{lower[e]:g} and {upper[e]:g}. Move the bounds or give another "
                "start."
            )


def _check_delays(table: _SettingsTable) -> None:
    """Check the starts of delays, and the bounds of shapes of distributions."""
    for array in table.arrays:
        e = array.first
        source = e if table.role[e] < 0 else table.role[e]
        lower, upper = table.lower[source], table.upper[source]
        if array.is_positive and table.start[source] <= 0:
            raise ValueError(
                f"`{table.names[e]}` must start positive, but got {table.start[e]:g}."
            )
        if array.role is None or array.shapes is None:
            continue
        least = array.shapes[0]
        if -np.inf < lower < least or upper <= least:
            raise ValueError(
                f"{wording.setting(table.names[source])} has the bounds {lower:g} and "
                f"{upper:g}, but {array.role.title} of delays is at least {least:g}."
            )
