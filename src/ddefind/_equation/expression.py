"""Formulas as trees, which can be evaluated to JAX arrays and printed as text.

A tree contains only the operators and functions that are listed in this file.
Evaluating it can therefore run no other code.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np

from .._problem.kernels import KERNELS

# Functions by name: the name in numpy and jax.numpy, and the least and the largest
# number of arguments (None: any number).
FUNCTIONS = {
    **{name: (name, 1, 1) for name in "exp log sqrt sin cos tan tanh abs".split()},
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
# The precedence of operators, as in Python: larger numbers bind more tightly.
PRECEDENCE = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(_COMPARISONS, 4),
    **dict.fromkeys("+-", 5),
    **dict.fromkeys("*/", 6),
    "neg": 7,
    "^": 8,
}
ATOM_PRECEDENCE = 9


@final
@dataclass(frozen=True)
class Number:
    """A number in the text."""

    value: float


@final
@dataclass(frozen=True)
class Name:
    """The name of a state, the time, the delay, a parameter, a definition or a
    constant. Only a constant, such as `pi`, has a `value`."""

    name: str

    @property
    def value(self) -> float | None:
        return CONSTANTS.get(self.name)


@final
@dataclass(frozen=True)
class Delayed:
    """A state or a definition at an earlier time, x(t - delay).

    `delay` is a formula, or a `Kernel` for the mean of a state over the past. If
    `slope` is true, this is the slope x'(t - delay) of a state."""

    name: str
    delay: "Expression"
    slope: bool = False
    value: ClassVar[None] = None


@final
@dataclass(frozen=True)
class Kernel:
    """A distribution of delays, with formulas of parameters for its two numbers. It is
    the delay of a `Delayed`."""

    distribution: str
    arguments: tuple["Expression", ...]
    value: ClassVar[None] = None


@final
@dataclass(frozen=True)
class Call:
    """An operator or a function with its arguments. Its `value` is the result if all
    arguments are constant, and None otherwise."""

    function: str
    arguments: tuple["Expression", ...]
    value: Any = None


Expression = Number | Name | Delayed | Kernel | Call


def is_network_name(name: str) -> bool:
    """Whether a name means a network where it stands before a parenthesis."""
    return name == "NN" or name.startswith("NN_")


def network_variable(name: str) -> str:
    """Return the name of a network among the variables of a formula, as a parameter may
    have the name of the network."""
    return f"{name}(...)"


def networks_called(expression: "Expression") -> list[str]:
    """Return the names of the networks in an expression, in the order of the text."""
    return [
        part.function
        for part in walk(expression)
        if isinstance(part, Call) and is_network_name(part.function)
    ]


def make_call(function: str, *arguments: Expression) -> Call:
    """Return the call of a function, evaluated at once if its arguments are constant.
    The caller has to check such a value, which may be infinite or NaN."""
    values = [argument.value for argument in arguments]
    if any(value is None for value in values):
        return Call(function, arguments)
    with np.errstate(all="ignore"):
        # Unlike Python's numbers, numpy's overflow and divide by zero without errors.
        numbers = [v if isinstance(v, bool) else np.float64(v) for v in values]
        return Call(function, arguments, _apply(function, numbers).item())


def is_condition(expression: Expression) -> bool:
    """Whether the value of an expression is true or false, and not a number."""
    return isinstance(expression, Call) and (
        expression.function in _COMPARISONS or expression.function in _LOGIC
    )


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield all parts of an expression, itself included, in the order of the text."""
    yield expression
    if isinstance(expression, Call | Kernel):
        for argument in expression.arguments:
            yield from walk(argument)


def names_in(expression: Expression) -> list[str]:
    """Return the names in an expression, but for those in `x(t - delay)`."""
    return [part.name for part in walk(expression) if isinstance(part, Name)]


def evaluate_formula(expression: Expression, variables: Mapping[str, Any]) -> Any:
    """Return the value of an expression, given its variables by name or by text, such
    as `x(t - tau)`."""
    if expression.value is not None:
        return expression.value
    if isinstance(expression, Delayed):
        return variables[formula_text(expression)]
    if isinstance(expression, Name):
        return variables[expression.name]
    assert isinstance(expression, Call)
    values = [evaluate_formula(each, variables) for each in expression.arguments]
    if is_network_name(expression.function):
        network = variables[network_variable(expression.function)]
        return network(*map(as_number, values))
    exponent = expression.arguments[-1].value
    if expression.function == "^" and exponent is not None and exponent % 1 == 0:
        values[1] = int(exponent)  # computed by products, not by logarithms
    return _apply(expression.function, values)


def as_number(value: Any) -> Any:
    """Return 1 and 0 for true and false, and other values unchanged."""
    if isinstance(value, bool):
        return np.float64(value)
    if getattr(value, "dtype", None) == np.dtype(bool):
        return value.astype(float)
    return value


def _apply(function: str, values: list) -> Any:
    """Return the value of a function or an operator for given arguments."""
    # numpy computes constants, because JAX would compile a program for each operation.
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


def _fold(function: Callable[..., Any], values: list) -> Any:
    """Return f(f(a, b), c) for the values a, b, c; f(a) for a single value."""
    return reduce(function, values) if len(values) > 1 else function(values[0])


def formula_text(expression: Expression, precedence: int = 0) -> str:
    """Return the text of an expression, in parentheses if it binds less than an
    operator with this `precedence` around it."""
    if isinstance(expression, Number):
        return number_text(expression.value)
    if isinstance(expression, Name):
        return expression.name
    if isinstance(expression, Delayed):
        return _delayed_text(expression)
    if isinstance(expression, Kernel):
        return _kernel_text(expression)
    function, arguments = expression.function, expression.arguments
    if function in FUNCTIONS or is_network_name(function):
        return f"{function}({', '.join(map(formula_text, arguments))})"
    binding = PRECEDENCE[function]
    if function in ("neg", "not"):
        sign = "-" if function == "neg" else "not "
        text = f"{sign}{formula_text(arguments[0], binding)}"
    elif function == "^":
        base = formula_text(arguments[0], ATOM_PRECEDENCE)
        text = f"{base}^{formula_text(arguments[1], PRECEDENCE['neg'])}"
    else:
        first = binding if function in _ARITHMETIC else binding + 1
        rest = [formula_text(argument, binding + 1) for argument in arguments[1:]]
        text = f" {function} ".join([formula_text(arguments[0], first), *rest])
    return f"({text})" if binding < precedence else text


def _delayed_text(expression: Delayed) -> str:
    name, delay = expression.name, expression.delay
    if isinstance(delay, Kernel):
        return f"delay({name}, {_kernel_text(delay)})"
    prime = "'" if expression.slope else ""
    # A delay a + b is written as t - a - b, and t - a as a.
    time = time_argument(delay)
    if time is not None:
        return f"{name}{prime}({formula_text(time)})"
    terms = [formula_text(term, PRECEDENCE["*"]) for term in delay_terms(delay)]
    return f"{name}{prime}({' - '.join(['t', *terms])})"


def _kernel_text(kernel: Kernel) -> str:
    return KERNELS[kernel.distribution].text(map(formula_text, kernel.arguments))


def time_argument(delay: Expression) -> Expression | None:
    """Return the argument of x(t / 2), whose delay is t - t / 2; else None."""
    if isinstance(delay, Call) and delay.function == "-":
        time, argument = delay.arguments
        return argument if time == Name("t") else None
    return None


def delay_terms(delay: Expression) -> list[Expression]:
    """Return the terms a, b, c of a delay a + b + c, or another delay as one term."""
    terms: list[Expression] = []
    while isinstance(delay, Call) and delay.function == "+":
        delay, last = delay.arguments
        terms.append(last)
    return [delay, *reversed(terms)]


def number_text(value: float) -> str:
    """Return the shortest text that is read as the same number.

    >>> number_text(8.0), number_text(0.00343), number_text(1e30)
    ('8', '0.00343', '1e+30')
    """
    return repr(value).removesuffix(".0")
