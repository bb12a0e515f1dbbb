"""PyTorch's operators that move numbers about, in JAX: views, indices and writes.

What is constant when a module is converted, such as most indices, comes as a numpy
array. Then reading and writing are slices and concatenations: the compiled loops of a
solve must have no gather and no scatter."""

import operator as python
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._operators import OPERATORS, operator

# Longer constant indices are gathered after all: slices would fill the program.
_FEW = 64

OPERATORS["getitem"] = python.getitem


@operator("view.default _unsafe_view.default reshape.default")
def _view(x, shape):
    return jnp.reshape(x, shape)


@operator("permute.default")
def _permute(x, dims):
    return jnp.transpose(x, dims)


@operator("unsqueeze.default")
def _unsqueeze(x, dim):
    return jnp.expand_dims(x, dim)


@operator("squeeze.dims")
def _squeeze(x, dims):
    return jnp.squeeze(x, tuple(d for d in dims if x.shape[d] == 1))


@operator("expand.default")
def _expand(x, shape, implicit=False):
    new = len(shape) - x.ndim
    sizes = [
        x.shape[axis - new] if size == -1 else size for axis, size in enumerate(shape)
    ]
    return jnp.broadcast_to(x, sizes)


@operator("repeat.default")
def _repeat(x, repeats):
    return jnp.tile(x, repeats)


@operator("cat.default")
def _cat(tensors, dim=0):
    # Torch still lets an empty vector stand among arrays of any shape.
    some = [x for x in tensors if x.shape != (0,)]
    return jnp.concatenate(some or tensors, axis=dim)


@operator("stack.default")
def _stack(tensors, dim=0):
    return jnp.stack(tensors, axis=dim)


@operator("split_with_sizes.default")
def _split(x, sizes, dim=0):
    return jnp.split(x, np.cumsum(sizes)[:-1], axis=dim)


@operator("flip.default")
def _flip(x, dims):
    return jnp.flip(x, dims)


@operator("roll.default")
def _roll(x, shifts, dims=()):
    return jnp.roll(x, shifts, dims or None)


@operator("constant_pad_nd.default")
def _pad(x, pad, value=0.0):
    # Pairs of torch begin at the last axis; a negative one cuts.
    pairs = list(zip(pad[::2], pad[1::2]))
    pairs += [(0, 0)] * (x.ndim - len(pairs))
    value = jnp.asarray(value, x.dtype)
    return lax.pad(x, value, [(low, high, 0) for low, high in reversed(pairs)])


@operator("diagonal.default")
def _diagonal(x, offset=0, dim1=0, dim2=1):
    return jnp.diagonal(x, offset, dim1, dim2)


@operator("full_like.default")
def _full_like(x, value, dtype=None):
    return jnp.full(x.shape, value, dtype or x.dtype)


@operator("_to_copy.default")
def _to_copy(x, dtype=None):
    return x  # The program gives every result the type that torch says.


@operator("copy.default")
def _copy(x, source):
    return jnp.broadcast_to(source, x.shape)


@operator("select.int")
def _select(x, dim, index):
    return lax.index_in_dim(x, index, dim, keepdims=False)


@operator("slice.Tensor")
def _slice(x, dim=0, start=None, end=None, step=1):
    start, end, step = slice(start, end, step).indices(x.shape[dim])
    return lax.slice_in_dim(x, start, max(start, end), step, dim)


@operator("select_scatter.default")
def _select_scatter(x, source, dim, index):
    index = index % x.shape[dim]
    row = jnp.expand_dims(source, dim).astype(x.dtype)
    before, after = _slice(x, dim, 0, index), _slice(x, dim, index + 1)
    return jnp.concatenate([before, row, after], axis=dim)


@operator("slice_scatter.default")
def _slice_scatter(x, source, dim=0, start=None, end=None, step=1):
    start, end, step = slice(start, end, step).indices(x.shape[dim])
    if step == 1:
        before, after = _slice(x, dim, 0, start), _slice(x, dim, max(start, end))
        return jnp.concatenate([before, source.astype(x.dtype), after], axis=dim)
    for position, index in enumerate(range(start, end, step)):
        x = _select_scatter(x, _select(source, dim, position), dim, index)
    return x


def _take(x, index, dim):
    """`x` along one axis at `index`, whose own axes take that one's place."""
    if not isinstance(index, np.ndarray) or index.size > _FEW or index.size == 0:
        return jnp.take(x, index, axis=dim)
    dim = dim % x.ndim
    rows = [_select(x, dim, int(i)) for i in index.ravel()]
    shape = x.shape[:dim] + index.shape + x.shape[dim + 1 :]
    return jnp.stack(rows, axis=dim).reshape(shape)


@operator("index_select.default")
def _index_select(x, dim, index):
    return _take(x, index, dim)


@operator("embedding.default")
def _embedding(weight, indices, padding_idx=-1, scale_by_freq=False, sparse=False):
    return _take(weight, indices, 0)


@operator("gather.default")
def _gather(x, dim, index, sparse_grad=False):
    inside = tuple(
        slice(None) if axis == dim % x.ndim else slice(size)
        for axis, size in enumerate(index.shape)
    )
    return jnp.take_along_axis(x[inside], jnp.asarray(index), axis=dim)


def _single(indices) -> tuple[int, np.ndarray] | None:
    """The axis and the numbers, where one axis alone has a constant index."""
    given = [axis for axis, index in enumerate(indices) if index is not None]
    index = indices[given[0]]
    if len(given) != 1 or not isinstance(index, np.ndarray):
        return None
    if index.dtype != bool:
        return given[0], index
    return (given[0], np.flatnonzero(index)) if index.ndim == 1 else None


def _places(indices) -> Any:
    return tuple(slice(None) if index is None else index for index in indices)


@operator("index.Tensor")
def _index(x, indices):
    if single := _single(indices):
        return _take(x, single[1], single[0])
    return x[_places(indices)]


@operator("index_put.default")
def _index_put(x, indices, values, accumulate=False):
    single = _single(indices)
    if single is None or accumulate or single[0] != 0 or single[1].ndim != 1:
        places = x.at[_places(indices)]
        return places.add(values) if accumulate else places.set(values)
    index = single[1]
    rows = jnp.broadcast_to(values, (len(index), *x.shape[1:]))
    for position, place in enumerate(index):
        x = _select_scatter(x, rows[position], 0, int(place))
    return x
