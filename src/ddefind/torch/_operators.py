"""The table of PyTorch's operators in JAX, and the operators that act elementwise.

Each function computes the same as torch's operator of that name, with torch's
derivative at points where it is not differentiable. `OPERATORS` maps torch's full
names, without `aten.`, to the functions. `_operators_sums.py` and
`_operators_shapes.py` register further ones."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy import special

# Powers with an integer exponent up to this one are computed by multiplication.
_MAX_INTEGER_EXPONENT = 64
OPERATORS: dict[str, Callable] = {}


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


register_all(
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
register_all(
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
register_all("self", where=jnp.where)
register_all("Tensor Scalar_Self Scalar_Other", xlogy=special.xlogy)
register_all("default", alias=lambda x: x, clone=lambda x: x)


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


register_all("Tensor", ldexp=lambda x, exponent: x * jnp.exp2(exponent))
register_all(
    "default",
    _log_softmax=lambda x, dim, half_to_float: jax.nn.log_softmax(x, axis=dim),
    _prelu_kernel=lambda x, weight: jnp.where(x > 0, x, weight * x),
    _softmax=lambda x, dim, half_to_float: jax.nn.softmax(x, axis=dim),
    celu=lambda x, alpha=1.0: _elu(x, alpha, 1.0, 1 / alpha),
    gelu=lambda x, approximate="none": jax.nn.gelu(x, approximate == "tanh"),
    mish=lambda x: x * jnp.tanh(_softplus(x)),
    polygamma=lambda n, x: special.polygamma(n, x),
    relu=lambda x: jnp.where(x > 0, x, 0),
)
