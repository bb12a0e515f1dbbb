"""Random numbers of many searches at once: each a function of a seed and a place.

Every search has a seed of its own. Number i of its stream s is a hash of the seed, s
and i (SplitMix64). So all searches draw together, and each gets what it would alone."""

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@final
@dataclass
class Streams:
    """The random numbers of searches with these `seeds`, a row for each. Every call
    draws from the next stream."""

    seeds: np.ndarray
    stream: int = field(default=0)

    def uniform(self, *shape: int) -> np.ndarray:
        """Numbers between zero and one, of the shape (searches, *shape)."""
        self.stream += 1
        count = int(np.prod(shape))
        with np.errstate(over="ignore"):
            keys = _mixed(self.seeds.astype(np.uint64) * _STEP + _STEP)
            keys = _mixed(keys + np.uint64(self.stream) * _STEP)
            places = np.arange(1, 1 + count, dtype=np.uint64) * _STEP
            bits = _mixed(keys[:, None] + places)
        uniform = ((bits >> np.uint64(11)) + 0.5) * 2.0**-53
        return uniform.reshape(len(self.seeds), *shape)

    def normal(self, *shape: int) -> np.ndarray:
        """Numbers with a standard normal distribution (Box and Muller)."""
        radius, turn = self.uniform(*shape), self.uniform(*shape)
        return np.sqrt(-2 * np.log(radius)) * np.cos(2 * np.pi * turn)

    def order(self, count: int) -> np.ndarray:
        """A random order of `count` things."""
        return np.argsort(self.uniform(count), axis=1)

    def sign(self, *shape: int) -> np.ndarray:
        """-1, 0 or 1; zero as often as both others."""
        number = self.uniform(*shape)
        return np.where(number < 0.25, -1.0, np.where(number < 0.75, 0.0, 1.0))


def _mixed(z: Any) -> Any:
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))
