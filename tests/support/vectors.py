"""Parameters as vectors: a problem's parameters in one vector and back, random vectors
near them, and vectors for which the last step ends at T."""

from typing import Any

import equinox as eqx
import numpy as np
from jax.flatten_util import ravel_pytree

import ddefind as dd
from ddefind._util.arrays import is_parameter


def flatten(module: Any):
    """Every parameter of a problem, or of a part of it, as one vector, and the way
    back."""
    dynamic, static = eqx.partition(module, is_parameter)
    flat, unravel = ravel_pytree(dynamic)
    return np.asarray(flat), lambda vector: eqx.combine(unravel(vector), static)


def tau_index(problem: dd.Problem) -> int:
    """Where the delay stands in that vector."""
    return len(flatten(problem.rhs)[0]) + len(flatten(problem.history)[0])


def near(problem: dd.Problem, count: int, seed: int) -> np.ndarray:
    """Random parameter vectors within 10% (or 0.1) of a problem's own, tau positive."""
    centre, _ = flatten(problem)
    random = np.random.default_rng(seed)
    spread = 0.1 * np.where(centre == 0, 1.0, np.abs(centre))
    return centre + spread * random.uniform(-1, 1, (count, len(centre)))


def whole_steps(problem: dd.Problem, vectors, T: float, n: int) -> np.ndarray:
    """The vectors with tau moved to the nearest value for which T / h is an integer."""
    at = tau_index(problem)
    moved = np.array(vectors)
    moved[:, at] = T * n / np.round(T * n / moved[:, at])
    return moved


def size_of(shapes: dict[str, tuple[int, ...]]) -> int:
    """How many numbers arrays of these shapes have."""
    return sum(int(np.prod(shape)) for shape in shapes.values())


def split(theta: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """Parts of a vector by name, in the order of their shapes."""
    parts, first = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        parts[name] = theta[first : first + size].reshape(shape)
        first += size
    return parts
