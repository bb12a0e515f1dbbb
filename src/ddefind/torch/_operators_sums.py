"""PyTorch's operators that reduce axes, in JAX: sums, matrix products and norms."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special

from ._operators import add, operator, power, register_all

# A layer with at most this many weights is computed as an elementwise product and a
# sum, which is faster than a matrix product. In a batch of fits, the elementwise
# product of a larger layer would not be fused into the compiled loop.
_MAX_ELEMENTWISE_WEIGHTS = 64


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


register_all("default dim dims", any=_reduction(jnp.any), all=_reduction(jnp.all))
register_all("default", amax=_reduction(jnp.max), amin=_reduction(jnp.min))
register_all("default", argmax=_reduction(jnp.argmax), argmin=_reduction(jnp.argmin))
register_all("default", max=_reduction(jnp.max), min=_reduction(jnp.min))
register_all("default dim", mean=_reduction(jnp.mean))
register_all("default dim_int", prod=_reduction(jnp.prod))
register_all("default dim_IntList", sum=_reduction(jnp.sum))
register_all("default", logsumexp=_reduction(special.logsumexp))


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


@operator("linear.default")
def _linear(x, weight, bias=None):
    if x.ndim == 1:
        result = _matrix_vector_product(weight, x)
    else:
        result = _matmul(x, weight.T)
    return result if bias is None else result + bias


@operator("bilinear.default")
def _bilinear(x, y, weight, bias=None):
    result = jnp.sum(weight * x[..., None, :, None] * y[..., None, None, :], (-1, -2))
    return result if bias is None else result + bias


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
    if bias is None:
        return result
    return result + bias.reshape(-1, *(1,) * (x.ndim - 2))


def _standardise(x, axes, eps):
    """Return `x` with mean 0 and variance 1, the mean, and 1 / standard deviation."""
    mean = jnp.mean(x, axes, keepdims=True)
    rstd = lax.rsqrt(jnp.var(x, axes, keepdims=True) + eps)
    return (x - mean) * rstd, mean, rstd


def _scale(x, weight, bias):
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


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
