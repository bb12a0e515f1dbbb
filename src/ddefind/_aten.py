"""The mathematics of PyTorch's operators, in JAX: functions, sums and products.

Each function computes what torch's operator of that name does, with the same slope
where a function has a kink. `OPERATORS` holds them by torch's full names (less `aten.`);
`_aten_shapes` adds those that move numbers about."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special

from ._network import SMALL, product

OPERATORS: dict[str, Callable] = {}


def operator(names: str) -> Callable[[Callable], Callable]:
    """Enter a function under each of the names."""

    def enter(function):
        OPERATORS.update(dict.fromkeys(names.split(), function))
        return function

    return enter


def _enter(overloads: str, **functions: Callable) -> None:
    for name, function in functions.items():
        operator(" ".join(f"{name}.{o}" for o in overloads.split()))(function)


_enter(
    "default",
    abs=jnp.abs,
    acos=jnp.arccos,
    acosh=jnp.arccosh,
    asin=jnp.arcsin,
    asinh=jnp.arcsinh,
    atan=jnp.arctan,
    atan2=jnp.arctan2,
    atanh=jnp.arctanh,
    bitwise_not=jnp.invert,
    ceil=jnp.ceil,
    cos=jnp.cos,
    cosh=jnp.cosh,
    detach=lax.stop_gradient,
    digamma=special.digamma,
    erf=special.erf,
    erfc=special.erfc,
    erfinv=special.erfinv,
    exp=jnp.exp,
    exp2=jnp.exp2,
    expm1=jnp.expm1,
    floor=jnp.floor,
    hypot=jnp.hypot,
    i0=special.i0,
    isinf=jnp.isinf,
    isnan=jnp.isnan,
    lgamma=special.gammaln,
    log=jnp.log,
    log10=jnp.log10,
    log1p=jnp.log1p,
    log2=jnp.log2,
    logaddexp=jnp.logaddexp,
    logical_and=jnp.logical_and,
    logical_not=jnp.logical_not,
    logical_or=jnp.logical_or,
    logical_xor=jnp.logical_xor,
    maximum=jnp.maximum,
    minimum=jnp.minimum,
    neg=jnp.negative,
    reciprocal=jnp.reciprocal,
    round=jnp.round,
    rsqrt=lax.rsqrt,
    sigmoid=jax.nn.sigmoid,
    sign=jnp.sign,
    sin=jnp.sin,
    sinc=jnp.sinc,
    sinh=jnp.sinh,
    special_i1=special.i1,
    sqrt=jnp.sqrt,
    tan=jnp.tan,
    tanh=jnp.tanh,
    trunc=jnp.trunc,
)
_enter(
    "Tensor Scalar",
    bitwise_and=jnp.bitwise_and,
    bitwise_or=jnp.bitwise_or,
    bitwise_xor=jnp.bitwise_xor,
    div=jnp.divide,
    eq=jnp.equal,
    fmod=jnp.fmod,
    ge=jnp.greater_equal,
    gt=jnp.greater,
    le=jnp.less_equal,
    lt=jnp.less,
    mul=jnp.multiply,
    ne=jnp.not_equal,
    remainder=jnp.remainder,
)
_enter("self", where=jnp.where)
_enter("Tensor Scalar_Self Scalar_Other", xlogy=special.xlogy)
_enter("default", alias=lambda x: x, clone=lambda x: x)


@operator("add.Tensor add.Scalar")
def _add(x, y, alpha=1):
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
def _power(x, exponent):
    whole = isinstance(exponent, (int, float)) and float(exponent).is_integer()
    if whole and abs(exponent) <= SMALL:
        return x ** int(exponent)
    return jnp.power(x, exponent)


@operator("copysign.Tensor copysign.Scalar")
def _copysign(x, sign):
    return jnp.where(jnp.signbit(sign), -1.0, 1.0) * jnp.abs(x)


@operator("ldexp.Tensor")
def _ldexp(x, exponent):
    return x * jnp.exp2(exponent)


@operator("polygamma.default")
def _polygamma(n, x):
    return special.polygamma(n, x)


@operator("relu.default")
def _relu(x):
    return jnp.where(x > 0, x, 0)


@operator("leaky_relu.default")
def _leaky_relu(x, slope=0.01):
    return jnp.where(x > 0, x, slope * x)


@operator("rrelu_with_noise_functional.default")
def _rrelu(x, noise, lower=1 / 8, upper=1 / 3, training=False):
    if training:
        raise NotImplementedError("it draws random numbers; call `module.eval()`")
    return _leaky_relu(x, (lower + upper) / 2), noise


@operator("_prelu_kernel.default")
def _prelu(x, weight):
    return jnp.where(x > 0, x, weight * x)


@operator("clamp.default clamp.Tensor")
def _clamp(x, low=None, high=None):
    # At a bound the slope is 1, as torch's; `jnp.clip` has other ones.
    x = x if low is None else jnp.where(x < low, low, x)
    return x if high is None else jnp.where(x > high, high, x)


@operator("hardtanh.default")
def _hardtanh(x, low=-1.0, high=1.0):
    # Outside and at the bounds the slope is 0, other than that of `clamp`.
    return jnp.where(x <= low, low, jnp.where(x >= high, high, x))


@operator("elu.default")
def _elu(x, alpha=1.0, scale=1.0, input_scale=1.0):
    # Each branch sees its own side only: exp overflows on the other.
    below = alpha * jnp.expm1(input_scale * jnp.where(x > 0, 0.0, x))
    return scale * jnp.where(x > 0, x, below)


@operator("celu.default")
def _celu(x, alpha=1.0):
    return _elu(x, alpha, 1.0, 1 / alpha)


@operator("softplus.default")
def _softplus(x, beta=1.0, threshold=20.0):
    large = x * beta > threshold
    return jnp.where(large, x, jnp.log1p(jnp.exp(beta * jnp.where(large, 0, x))) / beta)


@operator("mish.default")
def _mish(x):
    return x * jnp.tanh(_softplus(x))


@operator("gelu.default")
def _gelu(x, approximate="none"):
    return jax.nn.gelu(x, approximate=approximate == "tanh")


@operator("_softmax.default")
def _softmax(x, dim, half_to_float):
    return jax.nn.softmax(x, axis=dim)


@operator("_log_softmax.default")
def _log_softmax(x, dim, half_to_float):
    return jax.nn.log_softmax(x, axis=dim)


def _axes(dim):
    """Axes as torch gives them: None and an empty list mean all."""
    return None if dim is None or dim == () else dim


def _reduction(function):
    return lambda x, dim=None, keepdim=False, dtype=None: function(
        x, axis=_axes(dim), keepdims=keepdim
    )


_enter("default dim dims", any=_reduction(jnp.any), all=_reduction(jnp.all))
_enter("default", amax=_reduction(jnp.max), amin=_reduction(jnp.min))
_enter("default", argmax=_reduction(jnp.argmax), argmin=_reduction(jnp.argmin))
_enter("default", max=_reduction(jnp.max), min=_reduction(jnp.min))
_enter("default dim", mean=_reduction(jnp.mean))
_enter("default dim_int", prod=_reduction(jnp.prod))
_enter("default dim_IntList", sum=_reduction(jnp.sum))
_enter("default", logsumexp=_reduction(special.logsumexp))


def _with_place(place, x, dim, keepdim=False):
    """The extreme value along an axis, and where it stands: the slope is there only."""
    index = place(x, axis=dim, keepdims=True)
    value = jnp.take_along_axis(x, index, axis=dim)
    return tuple(a if keepdim else jnp.squeeze(a, dim) for a in (value, index))


@operator("max.dim")
def _max(x, dim, keepdim=False):
    return _with_place(jnp.argmax, x, dim, keepdim)


@operator("min.dim")
def _min(x, dim, keepdim=False):
    return _with_place(jnp.argmin, x, dim, keepdim)


@operator("cumsum.default")
def _cumsum(x, dim, dtype=None):
    return jnp.cumsum(x, axis=dim)


@operator("cumprod.default")
def _cumprod(x, dim, dtype=None):
    return jnp.cumprod(x, axis=dim)


@operator("logcumsumexp.default")
def _logcumsumexp(x, dim):
    return lax.cumlogsumexp(x, axis=dim % x.ndim)


@operator("var.correction")
def _variance(x, dim=None, correction=1, keepdim=False):
    return jnp.var(x, axis=_axes(dim), ddof=correction, keepdims=keepdim)


@operator("linalg_vector_norm.default")
def _norm(x, ord=2, dim=None, keepdim=False, dtype=None):
    x, options = jnp.abs(x), dict(axis=_axes(dim), keepdims=keepdim)
    if ord == math.inf:
        return jnp.max(x, **options)
    if ord == -math.inf:
        return jnp.min(x, **options)
    if ord == 0:
        return jnp.sum(x != 0, **options)
    total = jnp.sum(x if ord == 1 else _power(x, ord), **options)
    if ord == 1:
        return total
    # At zero torch's slope is zero, not infinite.
    safe = jnp.where(total == 0, 1.0, total)
    root = jnp.sqrt(safe) if ord == 2 else safe ** (1 / ord)
    return jnp.where(total == 0, 0.0, root)


@operator("_cdist_forward.default")
def _cdist(x, y, p, compute_mode):
    return _norm(x[..., :, None, :] - y[..., None, :, :], p, dim=-1)


@operator("matmul.default mm.default bmm.default mv.default dot.default")
def _matmul(a, b):
    if b.ndim == 1:
        return product(a, b)
    if a.ndim == 1:
        return product(jnp.swapaxes(b, -1, -2), a)
    if a.shape[-2] * math.prod(b.shape[-2:]) <= SMALL:
        return jnp.sum(a[..., :, :, None] * b[..., None, :, :], axis=-2)
    return a @ b


@operator("addmm.default addmv.default baddbmm.default")
def _add_product(c, a, b, beta=1, alpha=1):
    return _add(_matmul(a, b) * alpha, c, beta)


@operator("linear.default")
def _linear(x, weight, bias=None):
    if x.ndim == 1:
        result = product(weight, x)
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
    """A vector over the channels, the second axis, in the shape of `x`."""
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
