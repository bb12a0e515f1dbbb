"""PyTorch's operators in JAX: elementwise ones, reductions, shapes and indices.

Each function computes the same as torch's operator of that name, with torch's
derivative at points where it is not differentiable. `OPERATORS` maps torch's full
names, without `aten.`, to the functions.

Constants, such as most indices, are numpy arrays here. With a constant index, elements
are read and written by slices and concatenations, because gather and scatter operations
would be slow in the compiled loops of a solve."""

import math
import operator as python
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special

OPERATORS: dict[str, Callable] = {"getitem": python.getitem}
# Powers with an integer exponent up to this one are computed by multiplication.
_MAX_INTEGER_EXPONENT = 64
# A layer with at most this many weights is computed as an elementwise product and a
# sum, which is faster than a matrix product. In a batch of fits, the elementwise
# product of a larger layer would not be fused into the compiled loop.
_MAX_ELEMENTWISE_WEIGHTS = 64
# A constant index with more elements than this is gathered: as slices, it would make
# the program too long.
_MAX_SLICES = 64
# Functions that have torch's names in JAX: of arrays, and of two arrays or numbers.
_OF_ARRAYS = """abs acos acosh asin asinh atan atan2 atanh ceil cos cosh exp exp2 expm1
floor hypot isinf isnan log log10 log1p log2 logaddexp logical_and logical_not
logical_or logical_xor maximum minimum reciprocal round sign sin sinc sinh sqrt tan tanh
trunc""".split()
_OF_NUMBERS = "bitwise_and bitwise_or bitwise_xor fmod remainder".split()


def operator(names: str) -> Callable[[Callable], Callable]:
    """Return a decorator that registers a function under each of the `names`.

    Names are separated by spaces."""

    def register(function: Callable) -> Callable:
        for name in names.split():
            OPERATORS[name] = function
        return function

    return register


def register_all(overloads: str, **functions: Callable) -> None:
    """Register functions under their own names, each with all of the `overloads`."""
    for name, function in functions.items():
        operator(" ".join(f"{name}.{o}" for o in overloads.split()))(function)


register_all("default", **{name: getattr(jnp, name) for name in _OF_ARRAYS})
register_all("Tensor Scalar", **{name: getattr(jnp, name) for name in _OF_NUMBERS})
register_all(
    "Tensor Scalar",
    div=jnp.divide,
    eq=jnp.equal,
    ge=jnp.greater_equal,
    gt=jnp.greater,
    le=jnp.less_equal,
    lt=jnp.less,
    mul=jnp.multiply,
    ne=jnp.not_equal,
)
register_all("self", where=jnp.where)
register_all("Tensor Scalar_Self Scalar_Other", xlogy=special.xlogy)
register_all("Tensor", ldexp=lambda x, exponent: x * jnp.exp2(exponent))
register_all(
    "default",
    _log_softmax=lambda x, dim, half_to_float: jax.nn.log_softmax(x, axis=dim),
    _prelu_kernel=lambda x, weight: jnp.where(x > 0, x, weight * x),
    _softmax=lambda x, dim, half_to_float: jax.nn.softmax(x, axis=dim),
    alias=lambda x: x,
    bitwise_not=jnp.invert,
    celu=lambda x, alpha=1.0: _elu(x, alpha, 1.0, 1 / alpha),
    clone=lambda x: x,
    detach=lax.stop_gradient,
    digamma=special.digamma,
    erf=special.erf,
    erfc=special.erfc,
    erfinv=special.erfinv,
    gelu=lambda x, approximate="none": jax.nn.gelu(x, approximate == "tanh"),
    i0=special.i0,
    lgamma=special.gammaln,
    mish=lambda x: x * jnp.tanh(_softplus(x)),
    neg=jnp.negative,
    polygamma=special.polygamma,
    relu=lambda x: jnp.where(x > 0, x, 0),
    rsqrt=lax.rsqrt,
    sigmoid=jax.nn.sigmoid,
    special_i1=special.i1,
)


@operator("add.Tensor add.Scalar")
def add(x, y, alpha=1):
    return x + (y if alpha == 1 else alpha * y)


@operator("sub.Tensor sub.Scalar")
def _subtract(x, y, alpha=1):
    return x - (y if alpha == 1 else alpha * y)


@operator("div.Tensor_mode div.Scalar_mode")
def _divide(x, y, rounding_mode=None):
    if rounding_mode == "floor":
        return jnp.floor_divide(x, y)
    return jnp.trunc(x / y) if rounding_mode == "trunc" else x / y


@operator("pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar")
def power(x, exponent):
    whole = isinstance(exponent, (int, float)) and float(exponent).is_integer()
    if whole and abs(exponent) <= _MAX_INTEGER_EXPONENT:
        return x ** int(exponent)
    return jnp.power(x, exponent)


@operator("copysign.Tensor copysign.Scalar")
def _copysign(x, sign):
    return jnp.where(jnp.signbit(sign), -1.0, 1.0) * jnp.abs(x)


@operator("leaky_relu.default")
def _leaky_relu(x, slope=0.01):
    return jnp.where(x > 0, x, slope * x)


@operator("rrelu_with_noise_functional.default")
def _rrelu(x, noise, lower=1 / 8, upper=1 / 3, training=False):
    if training:
        raise NotImplementedError("it draws random numbers; call `module.eval()`")
    return _leaky_relu(x, (lower + upper) / 2), noise


@operator("clamp.default clamp.Tensor")
def _clamp(x, low=None, high=None):
    # As in torch, the derivative at a bound is 1. That of `jnp.clip` is another.
    x = x if low is None else jnp.where(x < low, low, x)
    return x if high is None else jnp.where(x > high, high, x)


@operator("hardtanh.default")
def _hardtanh(x, low=-1.0, high=1.0):
    # Other than for `clamp`, the derivative at a bound is 0.
    return jnp.where(x <= low, low, jnp.where(x >= high, high, x))


@operator("elu.default")
def _elu(x, alpha=1.0, scale=1.0, input_scale=1.0):
    # The exponential is computed at 0 where it is not used, because it could overflow.
    below = alpha * jnp.expm1(input_scale * jnp.where(x > 0, 0.0, x))
    return scale * jnp.where(x > 0, x, below)


@operator("softplus.default")
def _softplus(x, beta=1.0, threshold=20.0):
    large = x * beta > threshold
    return jnp.where(large, x, jnp.log1p(jnp.exp(beta * jnp.where(large, 0, x))) / beta)


# Reductions, products and norms.


def _matrix_vector_product(weight: jax.Array, x: jax.Array) -> jax.Array:
    """Compute `weight @ x` for a vector `x`, in the way that is faster for its size."""
    if weight.size <= _MAX_ELEMENTWISE_WEIGHTS:
        return jnp.sum(weight * x, axis=-1)
    return weight @ x


def _axes(dim: Any) -> Any:
    """Return the axes for JAX, where torch has None or an empty tuple for all axes."""
    return None if dim is None or dim == () else dim


def _reduction(function: Callable) -> Callable:
    """Return a reduction of JAX with the arguments of torch."""
    return lambda x, dim=None, keepdim=False, dtype=None: function(
        x, axis=_axes(dim), keepdims=keepdim
    )


# (None of these functions has all of these overloads.)
register_all(
    "default dim dims dim_int dim_IntList",
    all=_reduction(jnp.all),
    amax=_reduction(jnp.max),
    amin=_reduction(jnp.min),
    any=_reduction(jnp.any),
    argmax=_reduction(jnp.argmax),
    argmin=_reduction(jnp.argmin),
    logsumexp=_reduction(special.logsumexp),
    max=_reduction(jnp.max),
    mean=_reduction(jnp.mean),
    min=_reduction(jnp.min),
    prod=_reduction(jnp.prod),
    sum=_reduction(jnp.sum),
)


def _value_and_index(arg_extreme, x, dim, keepdim=False):
    """Return the largest or smallest element along an axis, and its index. As in torch,
    only the element at that index has a derivative, even if others are equal."""
    index = arg_extreme(x, axis=dim, keepdims=True)
    value = jnp.take_along_axis(x, index, axis=dim)
    return tuple(a if keepdim else jnp.squeeze(a, dim) for a in (value, index))


register_all(
    "dim",
    max=lambda x, dim, keepdim=False: _value_and_index(jnp.argmax, x, dim, keepdim),
    min=lambda x, dim, keepdim=False: _value_and_index(jnp.argmin, x, dim, keepdim),
)
register_all(
    "default",
    cumprod=lambda x, dim, dtype=None: jnp.cumprod(x, axis=dim),
    cumsum=lambda x, dim, dtype=None: jnp.cumsum(x, axis=dim),
    logcumsumexp=lambda x, dim: lax.cumlogsumexp(x, axis=dim % x.ndim),
)


@operator("var.correction")
def _variance(x, dim=None, correction=1, keepdim=False):
    return jnp.var(x, axis=_axes(dim), ddof=correction, keepdims=keepdim)


@operator("linalg_vector_norm.default")
def _norm(x, ord=2, dim=None, keepdim=False, dtype=None):
    x = jnp.abs(x)
    options: dict[str, Any] = dict(axis=_axes(dim), keepdims=keepdim)
    if ord == math.inf:
        return jnp.max(x, **options)
    if ord == -math.inf:
        return jnp.min(x, **options)
    if ord == 0:
        return jnp.sum(x != 0, **options)
    total = jnp.sum(x if ord == 1 else power(x, ord), **options)
    if ord == 1:
        return total
    # As in torch, the derivative at zero is zero, and not infinite.
    safe = jnp.where(total == 0, 1.0, total)
    root = jnp.sqrt(safe) if ord == 2 else safe ** (1 / ord)
    return jnp.where(total == 0, 0.0, root)


@operator("_cdist_forward.default")
def _cdist(x, y, p, compute_mode):
    return _norm(x[..., :, None, :] - y[..., None, :, :], p, dim=-1)


@operator("matmul.default mm.default bmm.default mv.default dot.default")
def _matmul(a, b):
    if b.ndim == 1:
        return _matrix_vector_product(a, b)
    if a.ndim == 1:
        return _matrix_vector_product(jnp.swapaxes(b, -1, -2), a)
    if a.shape[-2] * math.prod(b.shape[-2:]) <= _MAX_ELEMENTWISE_WEIGHTS:
        return jnp.sum(a[..., :, :, None] * b[..., None, :, :], axis=-2)
    return a @ b


@operator("addmm.default addmv.default baddbmm.default")
def _add_product(c, a, b, beta=1, alpha=1):
    return add(_matmul(a, b) * alpha, c, beta)


def _plus(x, bias):
    return x if bias is None else x + bias


@operator("linear.default")
def _linear(x, weight, bias=None):
    return _plus(_matmul(x, weight.T), bias)


@operator("bilinear.default")
def _bilinear(x, y, weight, bias=None):
    products = weight * x[..., None, :, None] * y[..., None, None, :]
    return _plus(jnp.sum(products, (-1, -2)), bias)


@operator("convolution.default")
def _convolution(
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups
):
    if transposed:
        raise NotImplementedError("transposed convolutions are not supported")
    result = lax.conv_general_dilated(
        x,
        weight,
        stride,
        [(p, p) for p in padding],
        rhs_dilation=dilation,
        feature_group_count=groups,
    )
    return _plus(result, _channels(bias, x))


def _standardise(x, axes, eps):
    """Return `x` with mean 0 and variance 1, the mean, and 1 / standard deviation."""
    mean = jnp.mean(x, axes, keepdims=True)
    rstd = lax.rsqrt(jnp.var(x, axes, keepdims=True) + eps)
    return (x - mean) * rstd, mean, rstd


def _scale(x, weight, bias):
    return _plus(x if weight is None else x * weight, bias)


@operator("native_layer_norm.default")
def _layer_norm(x, shape, weight, bias, eps):
    axes = tuple(range(-len(shape), 0))
    result, mean, rstd = _standardise(x, axes, eps)
    return _scale(result, weight, bias), mean, rstd


def _channels(array, x):
    """Return a vector over the channels, reshaped for broadcasting with axis 1 of
    `x`."""
    return None if array is None else array.reshape(1, -1, *(1,) * (x.ndim - 2))


@operator("native_group_norm.default")
def _group_norm(x, weight, bias, N, C, HxW, group, eps):
    result, mean, rstd = _standardise(x.reshape(N, group, -1), -1, eps)
    scaled = _scale(result.reshape(x.shape), _channels(weight, x), _channels(bias, x))
    return scaled, mean[..., 0], rstd[..., 0]


@operator("_native_batch_norm_legit.no_stats")
def _instance_norm(x, weight, bias, training, momentum, eps):
    axes = (0, *range(2, x.ndim))
    result, mean, rstd = _standardise(x, axes, eps)
    return _scale(result, _channels(weight, x), _channels(bias, x)), mean, rstd


@operator("_native_batch_norm_legit_no_training.default")
def _batch_norm(x, weight, bias, mean, variance, momentum, eps):
    result = (x - _channels(mean, x)) * lax.rsqrt(_channels(variance, x) + eps)
    empty = np.zeros(0)
    return _scale(result, _channels(weight, x), _channels(bias, x)), empty, empty


# Shapes and indices.

register_all(
    "default",
    _unsafe_view=jnp.reshape,
    copy=lambda x, source: jnp.broadcast_to(source, x.shape),
    diagonal=jnp.diagonal,
    flip=jnp.flip,
    full_like=lambda x, value, dtype=None: jnp.full(x.shape, value, dtype or x.dtype),
    permute=jnp.transpose,
    repeat=jnp.tile,
    reshape=jnp.reshape,
    roll=lambda x, shifts, dims=(): jnp.roll(x, shifts, dims or None),
    split_with_sizes=lambda x, sizes, dim=0: jnp.split(x, np.cumsum(sizes)[:-1], dim),
    stack=jnp.stack,
    unsqueeze=jnp.expand_dims,
    view=jnp.reshape,
)


@operator("squeeze.dims")
def _squeeze(x, dims):
    return jnp.squeeze(x, tuple(d for d in dims if x.shape[d] == 1))


@operator("expand.default")
def _expand(x, shape, implicit=False):
    # A size of -1 leaves an axis as it is.
    old = (1,) * (len(shape) - x.ndim) + x.shape
    return jnp.broadcast_to(x, [o if n == -1 else n for n, o in zip(shape, old)])


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
