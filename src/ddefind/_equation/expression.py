"""Checked formulas: small trees that evaluate to JAX arrays and print as text.

A tree holds only what this file knows by name, so evaluating it runs nothing else.
"""

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np

# Functions by name: what numpy and jax.numpy call them, and how many values they take.
FUNCTIONS = {
    **{name: (name, 1, 1) for name in ("exp", "log", "sqrt", "sin", "cos", "tan")},
    "tanh": ("tanh", 1, 1),
    "abs": ("abs", 1, 1),
    "min": ("minimum", 2, None),
    "max": ("maximum", 2, None),
    "where": ("where", 3, 3),
}
CONSTANTS = {"pi": float(np.pi)}
_ARITHMETIC = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "^": operator.pow,
    "neg": operator.neg,
}
_COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_LOGIC = {"and": "logical_and", "or": "logical_or", "not": "logical_not"}
# How tightly operators bind, as in Python.
BINDING = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(_COMPARISONS, 4),
    **dict.fromkeys("+-", 5),
    **dict.fromkeys("*/", 6),
    "neg": 7,
    "^": 8,
}
ATOM = 9


@final
@dataclass(frozen=True)
class Number:
    value: float


@final
@dataclass(frozen=True)
class Name:
    """A state, the time, the delay, a parameter, a definition or a constant."""

    name: str

    @property
    def value(self) -> float | None:
        return CONSTANTS.get(self.name)


@final
@dataclass(frozen=True)
class Delayed:
    """A state one delay ago; `delay` is the delay where the text gives a number."""

    state: str
    delay: float | None = None
    value: ClassVar[None] = None


@final
@dataclass(frozen=True)
class Call:
    """An operator or a function of values; `value` is its own if it is constant."""

    function: str
    arguments: tuple["Expression", ...]
    value: Any = None


Expression = Number | Name | Delayed | Call


def call(function: str, *arguments: Expression) -> Call:
    """`function` of `arguments`, computed at once if these are constant. What then is
    not finite is for the caller to refuse."""
    values = [argument.value for argument in arguments]
    if any(value is None for value in values):
        return Call(function, arguments)
    with np.errstate(all="ignore"):
        # numpy's numbers overflow and divide by zero without raising.
        numbers = [v if isinstance(v, bool) else np.float64(v) for v in values]
        return Call(function, arguments, _apply(function, numbers).item())


def is_condition(expression: Expression) -> bool:
    """Whether it is true or false rather than a number."""
    return isinstance(expression, Call) and (
        expression.function in _COMPARISONS or expression.function in _LOGIC
    )


def walk(expression: Expression) -> Iterator[Expression]:
    """All parts, in the order of the text."""
    yield expression
    if isinstance(expression, Call):
        for argument in expression.arguments:
            yield from walk(argument)


def names_in(expression: Expression) -> list[str]:
    """The names in a formula, in its order."""
    return [part.name for part in walk(expression) if isinstance(part, Name)]


def evaluate(expression: Expression, names: Mapping[str, Any]) -> Any:
    """The value where each name has its value in `names`; delayed states have that of
    `x(t - tau)`, whatever the delay."""
    if expression.value is not None:
        return expression.value
    if isinstance(expression, Delayed):
        return names[delayed_name(expression.state)]
    if isinstance(expression, Name):
        return names[expression.name]
    assert isinstance(expression, Call)
    values = []
    for argument in expression.arguments:
        values.append(evaluate(argument, names))
    exponent = expression.arguments[-1].value
    if expression.function == "^" and exponent is not None and exponent % 1 == 0:
        values[1] = int(exponent)  # products, not logarithms
    return _apply(expression.function, values)


def delayed_name(state: str) -> str:
    return f"{state}(t - tau)"


def as_number(value: Any) -> Any:
    """A condition as 1 or 0; other values as they are."""
    if isinstance(value, bool):
        return np.float64(value)
    if getattr(value, "dtype", None) == np.dtype(bool):
        return value.astype(float)
    return value


def _apply(function: str, values: list) -> Any:
    # Constants stay numpy's: each eager JAX operation would be compiled for itself.
    library = jnp if any(isinstance(value, jax.Array) for value in values) else np
    if function in _LOGIC:
        return _fold(getattr(library, _LOGIC[function]), values)
    if function == "where":
        condition, *values = values
        return library.where(condition, *map(as_number, values))
    values = [as_number(value) for value in values]
    if function in _COMPARISONS:
        return _COMPARISONS[function](*values)
    if function in _ARITHMETIC:
        return _ARITHMETIC[function](*values)
    return _fold(getattr(library, FUNCTIONS[function][0]), values)


def _fold(function, values: list) -> Any:
    return reduce(function, values) if len(values) > 1 else function(values[0])


def show(expression: Expression, binding: int = 0) -> str:
    """The text of a formula, in parentheses if it binds less tightly than `binding`."""
    if isinstance(expression, Number):
        return show_number(expression.value)
    if isinstance(expression, Name):
        return expression.name
    if isinstance(expression, Delayed):
        delay = "tau" if expression.delay is None else show_number(expression.delay)
        return f"{expression.state}(t - {delay})"
    function, arguments = expression.function, expression.arguments
    if function in FUNCTIONS:
        return f"{function}({', '.join(map(show, arguments))})"
    own = BINDING[function]
    if function == "neg":
        text = f"-{show(arguments[0], own)}"
    elif function == "not":
        text = f"not {show(arguments[0], own)}"
    elif function == "^":
        text = f"{show(arguments[0], ATOM)}^{show(arguments[1], BINDING['neg'])}"
    else:
        first = own if function in _ARITHMETIC else own + 1
        rest = [show(argument, own + 1) for argument in arguments[1:]]
        text = f" {function} ".join([show(arguments[0], first), *rest])
    return f"({text})" if own < binding else text


def show_number(value: float) -> str:
    """The shortest text that reads as the same number.

    >>> show_number(8.0), show_number(0.00343), show_number(1e30)
    ('8', '0.00343', '1e+30')
    """
    return repr(value).removesuffix(".0")
