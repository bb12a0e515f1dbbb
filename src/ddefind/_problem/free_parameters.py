r"""The map between a problem's parameters and one vector of free values.

A fit adjusts a vector of numbers, but a problem holds its parameters in several arrays,
some of which are fixed, tied to others, or bounded. `FreeParameters` maps the elements
of the vector to the elements of the arrays. Two vectors are used:

- theta holds the free parameter values themselves. Least squares works with theta.
- z is unconstrained. Gradient descent works with z: `transform` maps any z to a theta
  that lies within the bounds, and `inverse` maps theta back to z.

In a study, the model of experiment e has local free values $\theta_e$, which
`JointParameters` takes from the joint values $\theta$ of the whole study,

$$\theta_e = P_e\,\theta + c_e,$$

where each row of $P_e$ picks one joint value, or none: then the value is known in this
experiment, and stands in $c_e$.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._util.arrays import is_parameter
from .._util.errors import did_you_mean, shown
from .delays import DelayRole
from .problem import Problem


def is_name(key: str) -> bool:
    """Whether a key of a dict can be part of a parameter's name after a dot."""
    return key.replace("_", "a").isalnum()


def check_name(name: Any, known: Sequence[str]) -> None:
    """Raise an error unless the name of a parameter is a text."""
    if not isinstance(name, str):
        listed = ", ".join(map(repr, known[:20])) + (", ..." if known[20:] else "")
        raise TypeError(
            f"A parameter is called by its name ({listed}), but got {shown(name)}."
        )


class ParameterArray(NamedTuple):
    """One array of parameters of a problem.

    `name` is the array's full name, such as `rhs.theta_0`, and `short` the shortest
    unambiguous ending of it. All parameters of a problem are numbered in the order of
    its arrays; `first` is the number of this array's first element. `role` is the
    array's part in a delay; it is None for others, as for the parameters from which a
    delay is computed. `label` names the array's experiment, or is empty."""

    name: str
    short: str
    shape: tuple[int, ...]
    first: int
    role: DelayRole | None = None
    label: str = ""

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape))

    @property
    def is_delay(self) -> bool:
        """Whether the array is a delay, or a length of time in a distributed one."""
        return self.role is not None and self.shapes is None

    @property
    def shapes(self) -> tuple[float, float] | None:
        """The usual range of the shape of a distribution, from the least that is
        possible on; None if the array is no shape."""
        return None if self.role is None else self.role.usual

    @property
    def is_noise(self) -> bool:
        """Whether the array is a parameter of the noise."""
        return self.name.startswith(("noise.", "noise["))

    @property
    def is_positive(self) -> bool:
        """Whether the array is a delay that must be positive."""
        return self.is_delay and self.role is not None and not self.role.may_be_zero

    def elements(self, name: str) -> list[str]:
        """Return the names of the elements: `b[0]`, `b[1]`, or `b[0]@label`."""
        if self.size == 1:
            return [self.labelled(name)]
        return [
            self.labelled(f"{name}[{','.join(map(str, index))}]")
            for index in np.ndindex(*self.shape)
        ]

    def labelled(self, name: str) -> str:
        """Return the name with the label of the experiment."""
        return f"{name}@{self.label}" if self.label else name


@final
@dataclass(frozen=True)
class FreeParameters:
    """The map between a problem's parameters and the vector of free values.

    The number e counts all elements of the problem's parameters, the number j the free
    values.

    - `arrays`: the problem's arrays of parameters.
    - `names`: the short name of each free value j.
    - `source`: for each element e, the j of the free value that it equals, or -1 where
      the element is constant.
    - `like`: for each element e, the element that it always equals: the one it is tied
      to, or e itself.
    - `lower`, `upper`: the bounds of each free value j, infinite where there is none.

    The free values theta are computed from the unconstrained vector z as

    - theta = z without bounds,
    - theta = lower + exp(z) with a lower bound only,
    - theta = upper - exp(-z) with an upper bound only,
    - theta = lower + (upper - lower) / (1 + exp(-z)) with both.

    `join_values` and `problem_at` take theta, `join` and `problem` take z."""

    arrays: tuple[ParameterArray, ...]
    names: tuple[str, ...]
    source: tuple[int, ...]
    like: tuple[int, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]

    def transform(self, z: Any) -> Any:
        """Return the free values theta of the vector `z`. For a batch of fits, both
        have a second axis over the batch."""
        lower, upper = np.array(self.lower), np.array(self.upper)
        has_lower, has_upper = np.isfinite(lower), np.isfinite(upper)
        if not np.any(has_lower | has_upper):
            return z

        def column(array):
            return array.reshape(-1, *(1,) * (jnp.ndim(z) - 1))

        lower = column(np.where(has_lower, lower, 0.0))
        upper = column(np.where(has_upper, upper, 0.0))
        has_lower, has_upper = column(has_lower), column(has_upper)
        has_both, has_one = has_lower & has_upper, has_lower ^ has_upper
        # Where a branch is not selected, it is computed at 0, so that neither its value
        # nor its derivative is infinite or NaN.
        between = lower + (upper - lower) * jax.nn.sigmoid(jnp.where(has_both, z, 0.0))
        distance = jnp.exp(jnp.where(has_one, jnp.where(has_lower, z, -z), 0.0))
        one_sided = jnp.where(has_lower, lower + distance, upper - distance)
        return jnp.where(has_both, between, jnp.where(has_one, one_sided, z))

    def inverse(self, theta: np.ndarray) -> np.ndarray:
        """Return the unconstrained vector z of the free values `theta`, which must lie
        strictly between their bounds."""
        z = np.array(theta, float)
        lower, upper = np.array(self.lower), np.array(self.upper)
        has_lower, has_upper = np.isfinite(lower), np.isfinite(upper)
        both = has_lower & has_upper
        only_lower, only_upper = has_lower & ~has_upper, has_upper & ~has_lower
        fraction = (theta - lower)[both] / (upper - lower)[both]
        z[both] = np.log(fraction) - np.log1p(-fraction)
        z[only_lower] = np.log((theta - lower)[only_lower])
        z[only_upper] = -np.log((upper - theta)[only_upper])
        return z

    @property
    def paths(self) -> tuple[str, ...]:
        """The full name of each free value."""
        elements = [
            name for array in self.arrays for name in array.elements(array.name)
        ]
        return tuple(elements[self.source.index(j)] for j in range(len(self.names)))

    def index(self, name: str) -> int:
        """Return the number j of the free value with this short or full name."""
        check_name(name, self.names)
        for known in (self.names, self.paths):
            if name in known:
                return known.index(name)
        raise ValueError(
            f"There is no free parameter {name!r}.{did_you_mean(name, self.names)}"
        )

    def indices_or_values(self, problem: Problem) -> dict[str, int | float]:
        """Return the number j (an int) of each free parameter of the problem, and the
        value (a float) of each constant one, by short and by full name."""
        values = np.concatenate(
            [np.ravel(a) for a in jax.tree.leaves(eqx.filter(problem, is_parameter))]
        )
        known: dict[str, int | float] = {}
        for array in self.arrays:
            for name in (array.short, array.name):
                for element, key in enumerate(array.elements(name), start=array.first):
                    source = self.source[element]
                    known[key] = source if source >= 0 else float(values[element])
        return known

    def learns(self, array: ParameterArray) -> bool:
        """Whether an array contains a free value. A delay always counts as learned,
        because the time grid depends on it."""
        return array.is_delay or max(self._sources(array), default=-1) >= 0

    @property
    def delays(self) -> tuple[int, ...]:
        """The numbers j of the free values that are delays."""
        return self._first_values(array for array in self.arrays if array.is_delay)

    @property
    def shapes(self) -> dict[int, tuple[float, float]]:
        """The numbers j of the free values that are shapes of distributed delays, with
        the range in which each is sought by default."""
        found = ((self.source[array.first], array.shapes) for array in self.arrays)
        return {j: shapes for j, shapes in found if j >= 0 and shapes}

    @property
    def noise_count(self) -> int:
        """The number of free values of the noise alone, which are the last."""
        others = {
            source
            for array in self.arrays
            if not array.is_noise
            for source in self._sources(array)
            if source >= 0
        }
        return len(self.names) - len(others)

    def without_noise(self) -> "FreeParameters":
        """Return the parameters without those of the noise, and without bounds."""
        arrays = tuple(array for array in self.arrays if not array.is_noise)
        elements = sum(array.size for array in arrays)
        p = len(self.names) - self.noise_count
        return FreeParameters(
            arrays,
            self.names[:p],
            self.source[:elements],
            self.like[:elements],
            (-np.inf,) * p,
            (np.inf,) * p,
        )

    def _first_values(self, arrays: Iterable[ParameterArray]) -> tuple[int, ...]:
        """Return the distinct free values that are first elements of these arrays."""
        found = (self.source[array.first] for array in arrays)
        return tuple(dict.fromkeys(j for j in found if j >= 0))

    def split(self, problem: Problem) -> tuple[Problem, Problem]:
        """Return the arrays of the problem with free values, and the rest, for
        `eqx.combine`."""
        mask = self._fill(problem, [self.learns(array) for array in self.arrays])
        return eqx.partition(problem, mask)

    def join_values(self, theta: Any, learned: Problem) -> Problem:
        """Return `learned`, the first part of `split`, with the free values `theta`.
        Constant elements keep their value. For a batch of fits, `theta` and each array
        of the result have a last axis over the batch."""
        arrays = []
        old_arrays = iter(jax.tree.leaves(learned))
        for array in filter(self.learns, self.arrays):
            constants = next(old_arrays)
            pieces = [
                theta[source : source + end - begin]
                if source >= 0
                else _repeat(jnp.ravel(constants)[begin:end], theta.shape[1:])
                for begin, end, source in self._runs(array)
            ]
            flat = pieces[0] if len(pieces) == 1 else jnp.concatenate(pieces)
            arrays.append(flat.reshape(array.shape + theta.shape[1:]))
        return jax.tree.unflatten(jax.tree.structure(learned), arrays)

    def join(self, z: Any, learned: Problem) -> Problem:
        """Return the same as `join_values`, for the unconstrained vector `z`."""
        return self.join_values(self.transform(z), learned)

    def problem_at(self, theta: Any, problem: Problem) -> Problem:
        """Return the complete problem with the free values `theta` of one fit."""
        learned, fixed = self.split(problem)
        joined = self.join_values(np.asarray(theta), learned)
        return eqx.combine(jax.tree.map(jnp.asarray, joined), fixed)

    def problem(self, z: Any, problem: Problem) -> Problem:
        """Return the complete problem of the unconstrained vector `z` of one fit."""
        return self.problem_at(self.transform(np.asarray(z)), problem)

    def _sources(self, array: ParameterArray) -> tuple[int, ...]:
        """Return `source` for the elements of one array."""
        return self.source[array.first : array.first + array.size]

    def _runs(self, array: ParameterArray) -> Iterator[tuple[int, int, int]]:
        """Divide an array into runs of elements that can be copied with one slice.
        Within a run (begin, end, source), the elements begin to end - 1 equal
        consecutive free values from `source` on, or, if `source` is -1, they are all
        constant. The derivative of a slice needs no scatter operation, which would be
        slow in compiled loops."""
        sources, begin = self._sources(array), 0
        for end in range(1, len(sources) + 1):
            previous = sources[end - 1]
            expected = previous + 1 if previous >= 0 else -1
            if end == len(sources) or sources[end] != expected:
                yield begin, end, sources[begin]
                begin = end

    @staticmethod
    def _fill(problem: Problem, items: list) -> Any:
        """Return the tree of a problem: `items` for parameters, False elsewhere."""
        parameters, rest = eqx.partition(problem, is_parameter)
        filled = jax.tree.unflatten(jax.tree.structure(parameters), items)
        return eqx.combine(filled, jax.tree.map(lambda _: False, rest))


def _repeat(constants: jax.Array, batch: tuple[int, ...]) -> jax.Array:
    """Return a vector of constants, repeated along the axes of a batch, if any."""
    columns = constants.reshape(-1, *(1,) * len(batch))
    return jnp.broadcast_to(columns, (constants.shape[0], *batch))


@final
@dataclass(frozen=True)
class JointParameters:
    """The map from the values of each experiment to the joint ones.

    `free` are the joint parameters, `place` [experiments, local values] is the number
    of the joint value that each local one equals, or -1 where it is known, and `known`
    its value there. `is_own` says for each local value whether every experiment has its
    own."""

    free: FreeParameters
    place: np.ndarray
    known: np.ndarray
    is_own: np.ndarray

    @classmethod
    def alone(cls, free: FreeParameters) -> "JointParameters":
        """Return the map of a single experiment, whose values are the joint ones."""
        place = np.arange(len(free.names))[None]
        return cls(free, place, np.zeros(place.shape), np.zeros(place.shape[1], bool))

    def without_noise(self, local: int) -> "JointParameters":
        """Return the map without the parameters of the noise, of which the first
        `local` values of an experiment are none."""
        kept = (each[..., :local] for each in (self.place, self.known, self.is_own))
        return JointParameters(self.free.without_noise(), *kept)

    @property
    def selection(self) -> np.ndarray:
        """The matrices P, [experiments, local values, joint values]."""
        joint = np.arange(len(self.free.names))
        return (self.place[:, :, None] == joint).astype(float)

    def local(self, theta: np.ndarray, experiment: int) -> np.ndarray:
        """Return the local values of an experiment, for joint values or rows of
        them."""
        place = self.place[experiment]
        return np.where(place >= 0, theta[..., place], self.known[experiment])


def is_own_by_default(path: str) -> bool:
    """Whether by default each experiment has its own value of the parameter."""
    return path.startswith(("history.", "initial"))


def joint_parameters(
    local: FreeParameters,
    labels: Sequence[str],
    is_own: Sequence[bool],
    known: Sequence[Mapping[int, float]],
) -> JointParameters:
    """Return the joint parameters of the experiments with these `labels`. `is_own` says
    for each local value whether it differs between experiments, and `known` gives for
    each experiment its known local values."""
    names: list[str] = []
    place = np.full((len(labels), len(local.names)), -1)
    for j, name in enumerate(local.names):
        learned = [e for e in range(len(labels)) if j not in known[e]]
        for e in learned:
            if is_own[j] or e == learned[0]:
                names.append(f"{name}@{labels[e]}" if is_own[j] else name)
            place[e, j] = len(names) - 1
    values = np.zeros(place.shape)
    for e, known_here in enumerate(known):
        for j, value in known_here.items():
            values[e, j] = value
    count = len(names)
    arrays, source, like = _joint_arrays(local, labels, is_own, place)
    lower, upper = (-np.inf,) * count, (np.inf,) * count
    free = FreeParameters(arrays, tuple(names), source, like, lower, upper)
    return JointParameters(free, place, values, np.array(is_own, bool))


def _joint_arrays(
    local: FreeParameters,
    labels: Sequence[str],
    is_own: Sequence[bool],
    place: np.ndarray,
) -> tuple[tuple[ParameterArray, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the arrays of the study, their `source` and `like`. An array with a value
    of its own in each experiment occurs once for each."""
    arrays: list[ParameterArray] = []
    source: list[int] = []
    first_with: dict[int, int] = {}
    like: list[int] = []
    for array in local.arrays:
        sources = local.source[array.first : array.first + array.size]
        several = any(j >= 0 and is_own[j] for j in sources)
        for e, label in enumerate(labels):
            if e > 0 and not several:
                break  # One array serves all experiments.
            label = label if several else ""
            arrays.append(array._replace(first=len(source), label=label))
            for j in sources:
                # A value that is known in one experiment may be learned in others.
                found = place[:, j].max() if not several else place[e, j]
                joint = int(found) if j >= 0 else -1
                element = len(source)
                source.append(joint)
                same = first_with.setdefault(joint, element) if joint >= 0 else element
                like.append(same)
    return tuple(arrays), tuple(source), tuple(like)
