"""PyTorch's operators for shapes and indices, in JAX: views, reading and writing.

Constants, such as most indices, are numpy arrays here. With a constant index, elements
are read and written by slices and concatenations, because gather and scatter operations
would be slow in the compiled loops of a solve.
"""

import operator as python
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._operators import OPERATORS, operator, register_all

# A constant index with more elements than this is gathered: as slices, it would make
# the program too long.
_MAX_SLICES = 64

OPERATORS["getitem"] = python.getitem
register_all(
    "default",
    _unsafe_view=lambda x, shape: jnp.reshape(x, shape),
    copy=lambda x, source: jnp.broadcast_to(source, x.shape),
    diagonal=lambda x, offset=0, dim1=0, dim2=1: jnp.diagonal(x, offset, dim1, dim2),
    flip=lambda x, dims: jnp.flip(x, dims),
    full_like=lambda x, value, dtype=None: jnp.full(x.shape, value, dtype or x.dtype),
    permute=lambda x, dims: jnp.transpose(x, dims),
    repeat=lambda x, repeats: jnp.tile(x, repeats),
    reshape=lambda x, shape: jnp.reshape(x, shape),
    roll=lambda x, shifts, dims=(): jnp.roll(x, shifts, dims or None),
    split_with_sizes=lambda x, sizes, dim=0: jnp.split(x, np.cumsum(sizes)[:-1], dim),
    stack=lambda tensors, dim=0: jnp.stack(tensors, axis=dim),
    unsqueeze=lambda x, dim: jnp.expand_dims(x, dim),
    view=lambda x, shape: jnp.reshape(x, shape),
)


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


@operator("cat.default")
def _cat(tensors, dim=0):
    # Torch accepts, and ignores, empty vectors among arrays of any other shape.
    not_empty = [x for x in tensors if x.shape != (0,)]
    return jnp.concatenate(not_empty or tensors, axis=dim)


@operator("constant_pad_nd.default")
def _pad(x, pad, value=0.0):
    # Torch's pairs of widths begin at the last axis. Negative widths remove elements.
    pairs = list(zip(pad[::2], pad[1::2]))
    pairs += [(0, 0)] * (x.ndim - len(pairs))
    value = jnp.asarray(value, x.dtype)
    return lax.pad(x, value, [(low, high, 0) for low, high in reversed(pairs)])


@operator("_to_copy.default")
def _to_copy(x, dtype=None):
    return x  # `Step.run` converts each result to the type that torch gives it.


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
    """Return the elements of `x` at the indices `index` along the axis `dim`, which the
    axes of `index` replace."""
    if not isinstance(index, np.ndarray) or index.size > _MAX_SLICES or index.size == 0:
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


def _constant_index(indices: Sequence[Any]) -> tuple[int, np.ndarray] | None:
    """Return the axis and its index, if only one has an index and it is constant."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    axis = axes[0]
    index = indices[axis]
    if len(axes) != 1 or not isinstance(index, np.ndarray):
        return None
    if index.dtype != bool:
        return axis, index
    return (axis, np.flatnonzero(index)) if index.ndim == 1 else None


def _jax_index(indices: Sequence[Any]) -> Any:
    """Return the indices of all axes for JAX, where torch has None for a whole axis."""
    return tuple(slice(None) if index is None else index for index in indices)


@operator("index.Tensor")
def _index(x, indices):
    if constant := _constant_index(indices):
        axis, index = constant
        return _take(x, index, axis)
    return x[_jax_index(indices)]


@operator("index_put.default")
def _index_put(x, indices, values, accumulate=False):
    constant = _constant_index(indices)
    if constant is None or accumulate or constant[0] != 0 or constant[1].ndim != 1:
        elements = x.at[_jax_index(indices)]
        return elements.add(values) if accumulate else elements.set(values)
    index = constant[1]
    rows = jnp.broadcast_to(values, (len(index), *x.shape[1:]))
    for position, row_number in enumerate(index):
        x = _select_scatter(x, rows[position], 0, int(row_number))
    return x
