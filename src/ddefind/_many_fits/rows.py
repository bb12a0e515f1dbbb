"""One program for many rows: translated into C where that is possible, or compiled by
XLA, one row after the other in blocks of a fixed size.

What comes out for a row is a function of this row alone."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._kernels.places import Place
from .._kernels.program import run_fits
from .._util.buffers import read, write

# The number of rows that one call of the compiled program is given.
BLOCK = 128

# function(shared, of the set of the row, the row's own)
Function = Callable[[Any, Any, Any], Any]


def run_rows(
    function: Function,
    shared: Any,
    of_sets: Any,
    own: Any,
    set_of: np.ndarray,
    place: Place,
) -> Any:
    """`function(shared, of its set, own)` for each row, as arrays with a first axis
    over the rows. Row i belongs to the set `set_of[i]`; arrays of `of_sets` have a
    first axis over the sets, and those of `own` one over the rows."""
    if place is not Place.xla:
        return run_fits(function, shared, of_sets, own, set_of, place)
    blocks = []
    for first in range(0, len(set_of), BLOCK):
        rows = np.arange(first, min(first + BLOCK, len(set_of)))
        filled = np.resize(rows, BLOCK)
        result = _run_block(
            function,
            shared,
            _chosen(of_sets, set_of[filled]),
            _chosen(own, filled),
            jnp.asarray(len(rows)),
        )
        blocks.append(jax.tree.map(lambda a, k=len(rows): np.asarray(a)[:k], result))
    return jax.tree.map(lambda *parts: np.concatenate(parts), *blocks)


def _chosen(tree: Any, rows: np.ndarray) -> Any:
    return jax.tree.map(lambda array: array[rows], tree)


@eqx.filter_jit
def _run_block(function: Function, shared: Any, of_sets: Any, own: Any, count: Any):
    """The first `count` rows of a block, one after the other in one program."""

    def row(i):
        return function(shared, *jax.tree.map(lambda a: read(a, i), (of_sets, own)))

    def again(i, results):
        return jax.tree.map(lambda all_, one: write(all_, i, one), results, row(i))

    shapes = jax.eval_shape(row, jnp.asarray(0))
    zeros = jax.tree.map(lambda s: jnp.zeros((BLOCK, *s.shape), s.dtype), shapes)
    return lax.fori_loop(0, count, again, zeros)
