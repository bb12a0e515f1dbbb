"""Equinox modules that evaluate formulas, and the times at which formulas switch.

Each text has one class of modules, with one field for each parameter. A module can be
the right-hand side, the history, a delay, the state at time zero or the observation
function of a problem, like a module that is written in Python.

`switch_times` finds when a right-hand side switches. A condition such as `t > 5`, or
`t - tau < 2 * d` inside a delayed formula, changes at one time if the difference D(t)
of its two sides is linear in t: D(t) = D(0) + c t, with a number c that is not zero.
The time is -D(0) / c. It is a formula of parameters, if D(0) is one. `min`, `max` and
`abs` have a kink where D changes its sign. Conditions on states, or on t in other ways,
are not considered.
"""

import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any, ClassVar, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._problem.delays import (
    DELAY,
    AbstractConstantDelay,
    AbstractDelay,
    AbstractDistributedDelay,
    DelayRole,
)
from .._problem.general_delays import AbstractVaryingDelay
from .._problem.history import AbstractHistory
from .._problem.inputs import AbstractInput, is_input
from .._problem.kernels import KERNELS
from .._problem.network import Network, is_network
from .._problem.problem import Problem
from .._util.arrays import as_parameter
from ..models import AbstractModel
from .delayed_formulas import Expansion, varies
from .expression import (
    CONSTANTS,
    Call,
    Delayed,
    Expression,
    Kernel,
    Name,
    Number,
    as_number,
    evaluate_formula,
    formula_text,
    names_in,
    network_variable,
    networks_called,
    walk,
)
from .model_lines import ModelLines

# The part of a problem that formulas serve as. All but "switches" are modules. A delay
# is computed from parameters, varies with the time and the state, or has a kernel.
ModuleKind = Literal[
    "rhs", "history", "initial", "observe", "switches", "delay", "varying", "kernel"
]

# The name of the length of a delay among the variables of a right-hand side.
_DELAY = "delay {}"
_LINE_KINDS = {"rhs": "derivative", "history": "history", "initial": "initial"}


@final
@dataclass(frozen=True)
class FormulaProgram:
    """Formulas that compute a vector.

    `steps` are the definitions that the formulas use, by name and in the order in which
    they can be evaluated. `outputs` are the formulas of the components, and
    `parameters` the names of their parameters. `delays` are the distinct delays of the
    states, and `slopes` the texts of the delays at which slopes are read. `inputs` and
    `networks` are the names of the inputs and networks that are read. The outputs of a
    `kernel` are the numbers of this `distribution`."""

    kind: ModuleKind
    states: tuple[str, ...]
    steps: tuple[tuple[str, Expression], ...]
    outputs: tuple[Expression, ...]
    parameters: tuple[str, ...]
    delays: tuple[Expression, ...] = ()
    slopes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    distribution: str = ""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields of a module that runs the program."""
        return (*self.parameters, *self.inputs, *self.networks)

    @property
    def delays_by_text(self) -> dict[str, Expression]:
        """The distinct delays of the states by their texts."""
        return {formula_text(delay): delay for delay in self.delays}

    @property
    def has_several_delays(self) -> bool:
        """Whether the delays of the problem are a dict, and not one number: the text
        has other delays than `tau` or one number, or reads a slope."""
        return _has_several_delays(self.delays, self.slopes)

    def is_number(self, delay: Expression) -> bool:
        """Whether a delay is a parameter itself, and not a module that computes it."""
        is_plain = isinstance(delay, Name) and not varies(delay, self.states)
        return is_plain and formula_text(delay) not in self.slopes

    @property
    def parts(self) -> Iterator[Expression]:
        """All parts of all formulas."""
        formulas = (*(formula for _, formula in self.steps), *self.outputs)
        return (part for formula in formulas for part in walk(formula))

    def __call__(self, variables: dict[str, Any]) -> jax.Array:
        """Return the vector, given all variables, to which definitions are added."""
        for name, formula in self.steps:
            variables[name] = evaluate_formula(formula, variables)
        values = [as_number(evaluate_formula(o, variables)) for o in self.outputs]
        arrays = [jnp.asarray(value, jnp.result_type(float)) for value in values]
        if len(arrays) == 1:
            return jnp.broadcast_to(arrays[0], (1,))
        return jnp.stack([jnp.reshape(a, ()) if a.ndim else a for a in arrays])


def _has_several_delays(delays: Sequence[Expression], slopes: Sequence[str]) -> bool:
    """Whether delays need a dict, and not one number: see `FormulaProgram`."""
    if len(delays) > 1 or slopes:
        return True
    return any(not isinstance(d, Number) and d != Name("tau") for d in delays)


def make_program(kind: ModuleKind, lines: ModelLines) -> FormulaProgram:
    """Return the program for one part of a model. It may have no outputs."""
    outputs = lines.observe if kind == "observe" else lines.of(_LINE_KINDS[kind])
    expansion = Expansion(lines.states, lines.definitions, lines.inputs)
    formulas = tuple(expansion.add(output.formula) for output in outputs)
    steps = expansion.ordered_steps()
    delays, slopes = tuple(expansion.delays.values()), tuple(sorted(expansion.slopes))
    # Parameters are listed in the order of the text. Those of the delays by which
    # definitions are delayed follow.
    definitions = {step.split("(")[0] for step in steps}
    used = [
        line.formula
        for line in (*lines.model, *lines.observe)
        if line in outputs or (line.kind == "definition" and line.name in definitions)
    ]
    used += [*steps.values(), *formulas]
    names = dict.fromkeys(name for formula in used for name in names_in(formula))
    known = {*lines.states, *lines.inputs, *lines.definitions, *CONSTANTS, *steps, "t"}
    if kind == "rhs" and _has_several_delays(delays, slopes):
        known |= {delay.name for delay in delays if isinstance(delay, Name)}
    elif kind == "rhs":
        known.add("tau")
    if kind == "initial" and outputs:
        # A state without a value of its own at time zero keeps that of its history.
        values = {line.name: formula for line, formula in zip(outputs, formulas)}
        formulas = tuple(values.get(state, Name(state)) for state in lines.states)
    whole = (*steps.values(), *formulas)
    parts = [part for formula in whole for part in walk(formula)]
    read = {part.name for part in parts if isinstance(part, Name | Delayed)}
    return FormulaProgram(
        kind,
        lines.states,
        tuple(steps.items()),
        formulas,
        tuple(name for name in names if name not in known),
        delays,
        slopes,
        tuple(name for name in lines.inputs if name in read),
        tuple(dict.fromkeys(name for each in whole for name in networks_called(each))),
    )


def delay_program(rhs: FormulaProgram, delay: Expression) -> FormulaProgram:
    """Return the program for a delay of a right-hand side."""
    known = {*CONSTANTS, *rhs.states, "t"}
    names = dict.fromkeys(name for name in names_in(delay) if name not in known)
    parameters, text = tuple(names), formula_text(delay)
    if isinstance(delay, Kernel):
        numbers, word = delay.arguments, delay.distribution
        return FormulaProgram("kernel", (), (), numbers, parameters, distribution=word)
    slopes = (text,) if text in rhs.slopes else ()
    if slopes or varies(delay, rhs.states):
        return FormulaProgram(
            "varying", rhs.states, (), (delay,), parameters, slopes=slopes
        )
    return FormulaProgram("delay", (), (), (delay,), parameters)


@cache
def module_class(program: FormulaProgram) -> type[eqx.Module]:
    """Return the class of the modules that run a program. Equal programs have the same
    class, so that JAX compiles the same text only once. A right-hand side keeps the
    texts of its whole model as `_texts`, which cannot be the name of a parameter."""
    base, name_arguments = _MODULE_KINDS[program.kind]

    def __init__(self, *values, texts=None):
        self._texts = texts
        for name, value in zip(program.fields, values, strict=True):
            is_part = is_input(value) or is_network(value)
            setattr(self, name, value if is_part else as_parameter(value))

    def __call__(self, *arguments):
        parameters = {name: getattr(self, name) for name in program.parameters}
        variables = name_arguments(program, *arguments)
        for name in program.inputs:
            variables |= _input_values(program, name, getattr(self, name), variables)
        for name in program.networks:
            variables[network_variable(name)] = getattr(self, name)
        result = program(parameters | variables)
        if program.kind == "kernel":
            return KERNELS[program.distribution].of(result)
        return result[0] if program.kind in ("delay", "varying") else result

    def __reduce__(self):
        values = [getattr(self, name) for name in program.fields]
        return _rebuild, (program, self._texts, *values)

    def body(namespace):
        annotations: dict[str, Any] = dict.fromkeys(program.parameters, jax.Array)
        annotations |= dict.fromkeys(program.inputs, AbstractInput)
        annotations |= dict.fromkeys(program.networks, Network)
        annotations["_texts"] = Any
        namespace.update(
            __module__=__name__,
            __annotations__=annotations,
            _texts=eqx.field(static=True, repr=False),
            __init__=__init__,
            __call__=__call__,
            __reduce__=__reduce__,
        )
        if issubclass(base, AbstractDelay):
            namespace["describe"] = lambda self: _described(program, self)
        if issubclass(base, AbstractVaryingDelay | AbstractDistributedDelay):
            namespace["roles"] = lambda self: _roles(program)
        if program.kind == "kernel":
            annotations["kernel"] = ClassVar[type]
            namespace["kernel"] = KERNELS[program.distribution]
        if program.kind == "varying":
            for name in ("slope", "is_constant"):
                annotations[name] = ClassVar[bool]
            namespace["slope"] = bool(program.slopes)
            namespace["is_constant"] = not varies(program.outputs[0], program.states)

    return types.new_class(f"Text{program.kind.capitalize()}", (base,), {}, body)


def _input_values(
    program: FormulaProgram, name: str, function: AbstractInput, variables: dict
) -> dict[str, Any]:
    """Return the values of an input in the formulas, by their texts: u, u(t - tau)."""
    values = {}
    for part in program.parts:
        if part == Name(name):
            values[name] = function(variables["t"])
        elif isinstance(part, Delayed) and part.name == name:
            delay = formula_text(part.delay)
            time = variables["t"] - variables[_DELAY.format(delay)]
            values[formula_text(part)] = function(time)
    return values


def _described(program: FormulaProgram, delay: Any) -> str:
    """Return a delay with the values of its parameters: "`a + b` (a = 1, b = 2)"."""
    values = [
        f"{name} = {float(getattr(delay, name)):g}" for name in program.parameters
    ]
    text = f"`{formula_text(program.outputs[0])}`"
    if program.kind == "kernel":
        text = f"`{formula_text(Kernel(program.distribution, program.outputs))}`"
    return f"{text} ({', '.join(values)})" if values else text


def _roles(program: FormulaProgram) -> dict[str, DelayRole]:
    """Return the roles of the parameters that stand in a delay by themselves."""
    is_kernel = program.kind == "kernel"
    roles = KERNELS[program.distribution].numbers.values() if is_kernel else (DELAY,)
    return {
        output.name: role
        for role, output in reversed([*zip(roles, program.outputs)])
        if isinstance(output, Name) and output.name in program.parameters
    }


def _rebuild(program: FormulaProgram, texts: Any, *values: Any) -> eqx.Module:
    """Return a module that was pickled; its class cannot be found by name."""
    make: Any = module_class(program)
    return make(*values, texts=texts)


def _components(states: Sequence[str], x: jax.Array) -> dict[str, jax.Array]:
    """Return the components of the state vector `x` by name. A single state remains a
    vector of length one, which saves taking it apart and putting it together again."""
    if x.shape != (len(states),):
        raise ValueError(
            f"The text is for {', '.join(states)}, but the vector of states has shape "
            f"{x.shape}: the history must return one value for each."
        )
    if len(states) == 1:
        return {states[0]: x}
    return {state: x[index] for index, state in enumerate(states)}


def _rhs_variables(program: FormulaProgram, x: Any, y: Any, tau: Any, t: Any) -> dict:
    x, y, tau, t = jax.tree.map(jnp.asarray, (x, y, tau, t))
    delays = program.delays_by_text
    if not program.has_several_delays:
        y, tau = dict.fromkeys(delays, y), {"tau": tau}
    variables = _components(program.states, x)
    for key, delay in delays.items():
        values = y[key] if key in program.slopes else (y[key],)
        for vector, slope in zip(values, (False, True)):
            delayed = [Delayed(state, delay, slope) for state in program.states]
            variables |= _components(list(map(formula_text, delayed)), vector)
    lengths = dict(zip(delays, tau.values())) if len(delays) == len(tau) else {}
    variables |= {_DELAY.format(key): tau.get(key, lengths.get(key)) for key in delays}
    # A delay that is a state, as in x(t - y), has the name of the state.
    return {**tau, **variables, "t": t}


def _initial_variables(program: FormulaProgram, problem: Problem) -> dict:
    zero = jnp.zeros((), jnp.result_type(float))
    return {**_components(program.states, problem.history(zero)), "t": zero}


def _varying_variables(program: FormulaProgram, t: Any, x: Any) -> dict:
    return _observe_variables(program, x, t)


def _observe_variables(program: FormulaProgram, x: Any, t: Any) -> dict:
    return {**_components(program.states, jnp.asarray(x)), "t": jnp.asarray(t)}


# The base class of each kind of module, and the names of its arguments' values.
_MODULE_KINDS: dict[ModuleKind, Any] = {
    "rhs": (AbstractModel, _rhs_variables),
    "history": (AbstractHistory, lambda program, t: {"t": jnp.asarray(t)}),
    "delay": (AbstractConstantDelay, lambda program: {}),
    "varying": (AbstractVaryingDelay, _varying_variables),
    "kernel": (AbstractDistributedDelay, lambda program: {}),
    "initial": (eqx.Module, _initial_variables),
    "observe": (eqx.Module, _observe_variables),
}

# More arguments of `min` and `max` would give too many pairs.
_MAX_KINK_ARGUMENTS = 6


@final
@dataclass(frozen=True)
class SwitchTimes:
    """The times at which a right-hand side switches, as a function of the problem.

    `differences` computes the D(0), given the parameters, and `slopes` are the c."""

    differences: FormulaProgram
    slopes: tuple[float, ...]

    def __call__(self, problem: Problem) -> jax.Array:
        """Return the times as a vector."""
        program = self.differences
        parameters = {name: getattr(problem.rhs, name) for name in program.parameters}
        delays = _named_delays(program, problem.tau)
        variables = {**parameters, **delays, "t": np.zeros(())}
        return -program(variables) / np.array(self.slopes)


def _named_delays(program: FormulaProgram, tau: Any) -> dict[str, Any]:
    """Return the values of the delays that are parameters, by their names."""
    if not program.has_several_delays:
        return {"tau": tau}
    return {
        key: tau[key] if program.is_number(delay) else getattr(tau[key], key)
        for key, delay in program.delays_by_text.items()
        if isinstance(delay, Name) and not varies(delay, program.states)
    }


def switch_times(rhs: FormulaProgram) -> SwitchTimes | tuple[()]:
    """Return the times at which a right-hand side switches, or () if it never does."""
    linear = _LinearFormulas(rhs)
    found: dict[Expression, float] = {}
    for part in rhs.parts:
        for difference in _differences(part):
            slope = linear.slope(difference)
            if slope is not None and slope < 0 and isinstance(difference, Call):
                # 5 < t and t > 5 are one switch.
                difference, slope = _opposite(difference), -slope
            if slope:
                found[difference] = slope
    if not found:
        return ()
    steps = linear.needed(found)
    used = {name for formula in (*steps.values(), *found) for name in names_in(formula)}
    parameters = tuple(name for name in rhs.parameters if name in used)
    differences = FormulaProgram(
        "switches",
        rhs.states,
        tuple(steps.items()),
        tuple(found),
        parameters,
        rhs.delays,
        rhs.slopes,
    )
    return SwitchTimes(differences, tuple(found.values()))


def _differences(part: Expression) -> Iterator[Expression]:
    """Yield the differences D whose changes of sign are jumps or kinks of a formula."""
    if not isinstance(part, Call):
        return
    arguments = part.arguments
    if part.function in ("<", "<=", ">", ">="):
        yield Call("-", arguments)
    elif part.function in ("min", "max") and len(arguments) <= _MAX_KINK_ARGUMENTS:
        yield from (Call("-", pair) for pair in combinations(arguments, 2))
    elif part.function == "abs":
        yield arguments[0]


def _opposite(difference: Call) -> Call:
    """Return the difference with the opposite sign."""
    if difference.function == "-":
        return Call("-", difference.arguments[::-1])
    return Call("neg", (difference,))


@final
class _LinearFormulas:
    """The formulas of a right-hand side that are linear in t, else constant."""

    def __init__(self, rhs: FormulaProgram):
        self.varying = (*rhs.states, *rhs.inputs)
        self.steps = dict(rhs.steps)
        self.step_slopes: dict[str, float | None] = {}
        for name, formula in rhs.steps:  # each one after those that it needs
            self.step_slopes[name] = self.slope(formula)

    def slope(self, formula: Expression) -> float | None:
        """Return the c of a formula c t + d, or None if it is not of this form."""
        if formula.value is not None:
            return 0.0
        if isinstance(formula, Call):
            return self._call_slope(formula)
        if isinstance(formula, Delayed):
            return None
        assert isinstance(formula, Name)
        if formula.name == "t":
            return 1.0
        if formula.name in self.step_slopes:
            return self.step_slopes[formula.name]
        return None if formula.name in self.varying else 0.0

    def _call_slope(self, call: Call) -> float | None:
        found = [self.slope(argument) for argument in call.arguments]
        slopes = [slope for slope in found if slope is not None]
        if len(slopes) < len(found):
            return None
        if not any(slopes):
            return 0.0
        if call.function == "neg":
            return -slopes[0]
        if call.function == "+":
            return slopes[0] + slopes[1]
        if call.function == "-":
            return slopes[0] - slopes[1]
        if call.function == "*":
            left, right = map(self._constant, call.arguments)
            if left is not None:
                return left * slopes[1]
            return None if right is None else slopes[0] * right
        if call.function == "/":
            divisor = self._constant(call.arguments[1])
            return None if not divisor else slopes[0] / divisor
        return None

    def _constant(self, formula: Expression) -> float | None:
        """Return the value of a formula, if it is a number or the name of one."""
        if isinstance(formula, Name) and formula.name in self.steps:
            return self.steps[formula.name].value
        return formula.value

    def needed(self, formulas: Iterable[Expression]) -> dict[str, Expression]:
        """Return the definitions that formulas need, each one after those it needs."""
        names = {name for formula in formulas for name in names_in(formula)}
        for step in reversed(self.steps):
            if step in names:
                names.update(names_in(self.steps[step]))
        return {step: body for step, body in self.steps.items() if step in names}
