"""What is a parameter in a user's modules and functions (`with_parameters`).

- A number in a field of a module, or as the default of a function's further argument,
  is a parameter: its value is the start value. `def rhs(x, y, tau, t, r=1.0, K=2.0)`
  has the parameters r and K.
- An array of JAX is a parameter, too: `jnp.array([1.0, 2.0])`. So are the arrays of a
  module, such as a network, that a function has as a default. An input, `dd.Input`, is
  none, but it belongs to the problem as well.
- An array of NumPy is a table of constants. Integers in fields, flags, texts and
  static fields are constants as well."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np

from .._util.arrays import as_parameter, is_parameter
from .inputs import inputs_in
from .network import networks_in

_COMPILED = type(jax.jit(lambda: None))


@final
@jax.tree_util.register_pytree_with_keys_class
@dataclass(frozen=True)
class FunctionWithParameters:
    """A function whose further arguments are parameters, called by their names.

    >>> def decay(x, y, tau, t, k=2.0):
    ...     return -k * y
    >>> model = with_parameters("rhs", decay, ("x", "y", "tau", "t"))
    >>> model.k, model(None, 3.0, None, None)
    (Array(2., dtype=float64), Array(-6., dtype=float64))
    """

    _function: Callable[..., Any]
    _values: dict[str, Any]

    @property
    def __name__(self) -> str:
        return _name(self._function)

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments, **self._values)

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(f"There is no parameter {name!r}.")
        return values[name]

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], Any]:
        keys = [jax.tree_util.GetAttrKey(name) for name in self._values]
        children = list(zip(keys, self._values.values()))
        return children, (self._function, tuple(self._values))

    @classmethod
    def tree_unflatten(cls, function_and_names: Any, values: Any) -> Any:
        function, names = function_and_names
        return cls(function, dict(zip(names, values)))


def with_parameters(part: str, function: Any, arguments: tuple[str, ...]) -> Any:
    """Return a part of a problem with its parameters as arrays. A function that has
    parameters as defaults, after its `arguments`, becomes a
    `FunctionWithParameters`."""
    if not callable(function):
        return function
    is_function = isinstance(function, functools.partial | _COMPILED)
    if not is_function and not inspect.isfunction(function):
        return jax.tree.map(_as_array_if_number, function)
    further = _further_arguments(part, function, arguments)
    values = {name: _learned(default) for name, default in further.items()}
    values = {name: value for name, value in values.items() if value is not None}
    return FunctionWithParameters(function, values) if values else function


def _as_array_if_number(leaf: Any) -> Any:
    is_number = isinstance(leaf, float | np.floating)
    if isinstance(leaf, np.ndarray) and leaf.shape == ():
        is_number = np.issubdtype(leaf.dtype, np.floating)
    return as_parameter(leaf) if is_number else leaf


def _further_arguments(
    part: str, function: Any, arguments: tuple[str, ...]
) -> dict[str, Any]:
    """Return the arguments of a function after the first ones, with their defaults."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return {}
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    positional = [p for p in named if p.kind != p.KEYWORD_ONLY]
    takes_any = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    first = positional[: len(arguments)]
    wanted, shown = ", ".join(arguments), ", ".join(map(str, parameters))
    mismatch = (
        f"`{part}` is called with ({wanted}), but `{_name(function)}` takes ({shown})."
    )
    if len(first) < len(arguments) and not takes_any:
        raise TypeError(mismatch)
    bound = function.keywords if isinstance(function, functools.partial) else {}
    further = [p for p in named if p not in first and p.name not in bound]
    lacking = [p.name for p in further if p.default is p.empty]
    if lacking:
        raise TypeError(
            f"{mismatch} Give `{lacking[0]}` a default, the value from which it is "
            f"learned: `{lacking[0]}=1.0`."
        )
    return {p.name: p.default for p in further}


def _learned(default: Any) -> Any:
    """Return a default with its parameters as arrays, or None if it is a constant."""
    numbers = default if isinstance(default, list | tuple) else (default,)
    kinds = int | float | np.integer | np.floating
    if numbers and all(
        isinstance(v, kinds) and not isinstance(v, bool) for v in numbers
    ):
        return as_parameter(default)
    module = jax.tree.map(_as_array_if_number, default)
    has_parameters = any(map(is_parameter, jax.tree.leaves(module)))
    belongs = has_parameters or inputs_in(module) or networks_in(module)
    return module if belongs else None


def _name(function: Any) -> str:
    inner = getattr(function, "func", function)  # of a partial function
    return getattr(inner, "__name__", type(inner).__name__)
