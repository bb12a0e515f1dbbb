"""How a problem's parameters hang on one free vector, bounds and ties included."""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._util.errors import did_you_mean
from .problem import Problem


class ParameterArray(NamedTuple):
    """One array of parameters: its names and where its elements stand among all."""

    name: str
    short: str
    shape: tuple[int, ...]
    first: int

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def elements(self, name: str) -> list[str]:
        if self.size == 1:
            return [name]
        return [
            f"{name}[{','.join(map(str, index))}]" for index in np.ndindex(*self.shape)
        ]


@final
@dataclass(frozen=True)
class FreeParameters:
    """How a problem's parameters hang on the free vector z.

    Element e of the parameters is `x[source[e]]` of the free values x, or constant
    where `source` is negative; it always equals the element `like[e]`, itself unless it
    is tied. The free values are x = z without bounds, lower + exp(z)
    or upper - exp(-z) with one, lower + (upper - lower) / (1 + exp(-z)) with two."""

    arrays: tuple[ParameterArray, ...]
    names: tuple[str, ...]  # of the free values
    source: tuple[int, ...]
    like: tuple[int, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]

    def transform(self, z):
        """The free values of the free vector (bounds applied), for one fit or lanes."""
        lower, upper = np.array(self.lower), np.array(self.upper)
        below, above = np.isfinite(lower), np.isfinite(upper)
        if not np.any(below | above):
            return z

        def column(array):
            return array.reshape(-1, *(1,) * (jnp.ndim(z) - 1))

        lower = column(np.where(below, lower, 0.0))
        upper = column(np.where(above, upper, 0.0))
        below, above = column(below), column(above)
        both, one = below & above, below ^ above
        # Each branch sees harmless numbers where it is not chosen: no inf, no NaN.
        inside = lower + (upper - lower) * jax.nn.sigmoid(jnp.where(both, z, 0.0))
        size = jnp.exp(jnp.where(one, jnp.where(below, z, -z), 0.0))
        outside = jnp.where(below, lower + size, upper - size)
        return jnp.where(both, inside, jnp.where(one, outside, z))

    def inverse(self, x: np.ndarray) -> np.ndarray:
        """The free vector of given free values, strictly within their bounds."""
        z, lower, upper = np.array(x, float), np.array(self.lower), np.array(self.upper)
        below, above = np.isfinite(lower), np.isfinite(upper)
        both, only_below, only_above = below & above, below & ~above, above & ~below
        share = (x - lower)[both] / (upper - lower)[both]
        z[both] = np.log(share) - np.log1p(-share)
        z[only_below] = np.log((x - lower)[only_below])
        z[only_above] = -np.log((upper - x)[only_above])
        return z

    @property
    def paths(self) -> tuple[str, ...]:
        """The full names of the free values."""
        elements = [name for each in self.arrays for name in each.elements(each.name)]
        return tuple(elements[self.source.index(j)] for j in range(len(self.names)))

    def index(self, name: str) -> int:
        """The place of a free parameter among all of them, by its short or full
        name."""
        for known in (self.names, self.paths):
            if name in known:
                return known.index(name)
        raise ValueError(
            f"There is no free parameter {name!r}.{did_you_mean(name, self.names)}"
        )

    def indices_or_values(self, problem: Problem) -> dict[str, int | float]:
        """Every parameter of the problem by its short and its full name: for a free one
        its index (an int), for any other its value (a float)."""
        values = np.concatenate(
            [
                np.ravel(a)
                for a in jax.tree.leaves(eqx.filter(problem, eqx.is_inexact_array))
            ]
        )
        known: dict[str, int | float] = {}
        for array in self.arrays:
            for name in (array.short, array.name):
                for element, key in enumerate(array.elements(name), start=array.first):
                    source = self.source[element]
                    known[key] = source if source >= 0 else float(values[element])
        return known

    def learns(self, each: ParameterArray) -> bool:
        """Whether the array depends on z. That of tau counts always: it sets the
        grid."""
        return each.name == "tau" or max(self._sources(each), default=-1) >= 0

    def split(self, problem: Problem) -> tuple[Problem, Problem]:
        """The arrays with something to learn, and all the rest."""
        mask = self._fill(problem, [self.learns(each) for each in self.arrays])
        return eqx.partition(problem, mask)

    def join(self, z, learned: Problem) -> Problem:
        """`learned`, the first part of `split`, at the free vector `z`; what is
        constant in it stays. In lanes z has a last axis more, and so has the result."""
        x = self.transform(z)
        arrays = []
        old = iter(jax.tree.leaves(learned))
        for each in filter(self.learns, self.arrays):
            constants = next(old)
            pieces = [
                x[source : source + end - begin]
                if source >= 0
                else _spread(jnp.ravel(constants)[begin:end], x.shape[1:])
                for begin, end, source in self._runs(each)
            ]
            flat = pieces[0] if len(pieces) == 1 else jnp.concatenate(pieces)
            arrays.append(flat.reshape(each.shape + x.shape[1:]))
        return jax.tree.unflatten(jax.tree.structure(learned), arrays)

    def problem(self, z, problem: Problem) -> Problem:
        """The whole problem at the free vector `z` of one fit."""
        learned, fixed = self.split(problem)
        joined = jax.tree.map(jnp.asarray, self.join(np.asarray(z), learned))
        return eqx.combine(joined, fixed)

    def _sources(self, each: ParameterArray) -> tuple[int, ...]:
        return self.source[each.first : each.first + each.size]

    def _runs(self, each: ParameterArray):
        """Stretches of elements that are neighbours in x, or constant: static slices,
        whose derivative is no scatter."""
        sources, begin = self._sources(each), 0
        for e in range(1, len(sources) + 1):
            before = sources[e - 1]
            wanted = before + 1 if before >= 0 else -1
            if e == len(sources) or sources[e] != wanted:
                yield begin, e, sources[begin]
                begin = e

    @staticmethod
    def _fill(problem: Problem, items: list) -> Any:
        """The problem's tree with `items` at its parameters and False elsewhere."""
        parameters, rest = eqx.partition(problem, eqx.is_inexact_array)
        filled = jax.tree.unflatten(jax.tree.structure(parameters), items)
        return eqx.combine(filled, jax.tree.map(lambda _: False, rest))


def _spread(constants, lanes: tuple[int, ...]):
    columns = constants.reshape(-1, *(1,) * len(lanes))
    return jnp.broadcast_to(columns, (constants.shape[0], *lanes))
