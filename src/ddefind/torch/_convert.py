"""Convert a torch module to a program for JAX, and compare both.

`torch.export` makes a graph of the module's `forward`, in which each node calls one
operator. Each node becomes a step of a `ConvertedProgram`, which JAX runs. It contains
neither torch objects nor weights: two modules of the same architecture have equal
programs, so that JAX compiles them only once.

A comparison of values and derivatives finds what a graph does not show, such as a
derivative that the user has defined in a `torch.autograd.Function`."""

import contextlib
import functools
import io
import operator
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, final

import jax
import jax.numpy as jnp
import numpy as np

from ._check_module import (
    ExampleInputs,
    double_precision,
    forward_name,
    required_arguments,
    torch,
    users_line,
)
from ._operators import OPERATORS


@final
@dataclass(frozen=True)
class Ref:
    """A reference to a value of a program: a tensor, an input or the result of a step.

    The values are numbered in this order; `index` is the number."""

    index: int


@final
@dataclass(frozen=True)
class ConstantArray:
    """A constant array, which can be compared and hashed."""

    data: bytes
    dtype: str
    shape: tuple[int, ...]

    @staticmethod
    def of(array: np.ndarray) -> "ConstantArray":
        """Return the constant with the elements of `array`."""
        return ConstantArray(array.tobytes(), array.dtype.name, array.shape)

    @property
    def array(self) -> np.ndarray:
        """The constant as a numpy array, of a type that JAX has enabled."""
        dtype = jax.dtypes.canonicalize_dtype(self.dtype)
        array = np.frombuffer(self.data, self.dtype).reshape(self.shape)
        return array.astype(dtype)


@final
@dataclass(frozen=True)
class OperatorCall:
    """The call of one operator.

    `arguments` and `options` are its positional and its named arguments, with a `Ref`
    for each value that is computed before. `dtype` is the type of its result, or None
    for several results. `place` is the line of the user's code."""

    operator: str
    arguments: tuple
    options: dict[str, Any]
    dtype: str | None
    place: str = field(repr=False)

    def run(self, values: list) -> Any:
        """Return the result of the step, given the values before it."""
        arguments, options = _look_up((self.arguments, self.options), values)
        try:
            result = OPERATORS[self.operator](*arguments, **options)
        except Exception as error:
            raise NotImplementedError(
                f"`aten.{self.operator}` cannot be converted as it is used at "
                f"{self.place}: {error}"
            ) from error
        if self.dtype is None:
            return result
        return jnp.asarray(result, jax.dtypes.canonicalize_dtype(self.dtype))


def _look_up(arguments: Any, values: list) -> Any:
    """Return arguments with all references and constants replaced by their arrays."""

    def found(leaf: Any) -> Any:
        if isinstance(leaf, Ref):
            return values[leaf.index]
        return leaf.array if isinstance(leaf, ConstantArray) else leaf

    return jax.tree.map(found, arguments)


@final
@dataclass(frozen=True, eq=False)
class ConvertedProgram:
    """The steps of a module's `forward`.

    `program(tensors, *inputs)` computes the result. `tensors` are the parameters and
    buffers of the module, by name. The inputs are reshaped to `self.inputs`, as
    `forward` expects them, and the result to `self.shape`, which is (d,). Inputs that
    are tuples or dicts (`self.structure`) count as their elements, in the order of
    JAX's trees."""

    tensors: tuple[str, ...]
    inputs: tuple[tuple[int, ...], ...]
    structure: Any
    steps: tuple[OperatorCall, ...]
    output: Ref | ConstantArray
    shape: tuple[int, ...]

    @functools.cached_property
    def _text(self) -> str:
        """Programs are compared as text, in which 2 differs from 2.0 and a tuple from a
        `Ref`."""
        return repr(self)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, ConvertedProgram) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def uses_input(self, number: int) -> bool:
        """Whether the input of this number (the first is 0) is used by any step."""
        steps = [(step.arguments, step.options) for step in self.steps]
        used = jax.tree.leaves((steps, self.output))
        return Ref(len(self.tensors) + number) in used

    def __call__(self, tensors: Mapping[str, Any], *inputs: Any) -> jax.Array:
        values = [tensors[name] for name in self.tensors]
        leaves = jax.tree.leaves(inputs)
        values += [jnp.reshape(x, shape) for x, shape in zip(leaves, self.inputs)]
        for step in self.steps:
            values.append(step.run(values))
        return jnp.reshape(_look_up(self.output, values), self.shape)


@functools.partial(jax.jit, static_argnums=0)
def value_and_vjp(
    program: ConvertedProgram,
    constants: Mapping[str, Any],
    parameters: Mapping[str, Any],
    inputs: tuple,
    cotangent: Any,
) -> tuple[jax.Array, dict[str, jax.Array], tuple]:
    """Compute a program, and the cotangents of its parameters and inputs."""

    def run(parameters, inputs):
        return program({**constants, **parameters}, *inputs)

    result, back = jax.vjp(run, parameters, inputs)
    return result, *back(cotangent)


def check_agreement(
    module: torch.nn.Module,
    program: ConvertedProgram,
    parameters: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray],
    example: ExampleInputs,
) -> None:
    """Raise an error if the program and the module differ on the example inputs."""
    learned = [dict(module.named_parameters())[name] for name in parameters]
    leaves, structure = jax.tree.flatten(example.inputs)
    inputs = [tensor.clone().requires_grad_() for tensor in leaves]
    cotangent = torch.linspace(0.5, 1.5, example.dimension)
    with torch.enable_grad():
        result = module(*jax.tree.unflatten(structure, inputs)).reshape(-1)
    arrays = tuple(tensor.detach().numpy() for tensor in inputs)
    value, on_parameters, on_inputs = value_and_vjp(
        program, constants, parameters, arrays, cotangent.numpy()
    )
    if not _close(value, result):
        raise RuntimeError(
            f"The conversion of {forward_name(module)} gives {np.asarray(value)}, but "
            f"torch {result.detach().numpy()}. This is an error of ddefind: please "
            "report it."
        )
    expected = _torch_vjp(result, learned + inputs, cotangent)
    computed = [*(on_parameters[name] for name in parameters), *on_inputs]
    names = [*parameters, *input_names(module, structure)]
    for name, ours, torchs in zip(names, computed, expected):
        if torchs is not None and not _close(ours, torchs):
            raise ValueError(
                f"{forward_name(module)} has a derivative for {name!r} that is not the "
                "one of its operations. Leave out `torch.no_grad()` (use `.detach()`) "
                "and `torch.autograd.Function`."
            )


def input_names(module: torch.nn.Module, structure: Any) -> list[str]:
    """Return the names of the inputs of `forward`, such as `x` and `y['growth']`."""
    leaves = range(structure.num_leaves)
    arguments = jax.tree.unflatten(structure, leaves)
    return [
        f"{name}{jax.tree_util.keystr(path)}"
        for name, argument in zip(required_arguments(module), arguments)
        for path, _ in jax.tree_util.tree_leaves_with_path(argument)
    ]


def _torch_vjp(
    result: torch.Tensor, tensors: list, cotangent: torch.Tensor
) -> list[torch.Tensor | None]:
    """Compute the cotangents of the `tensors` by torch, None if it cannot."""
    if not result.requires_grad:
        return [torch.zeros(tensor.shape) for tensor in tensors]
    try:
        found = torch.autograd.grad(result, tensors, cotangent, allow_unused=True)
    except RuntimeError:  # An operator such as `heaviside` has no derivative in torch.
        return [None] * len(tensors)
    return [torch.zeros(x.shape) if g is None else g for x, g in zip(tensors, found)]


def _close(computed: Any, expected: torch.Tensor) -> bool:
    """Whether two arrays agree up to rounding errors.

    Elements that are infinite or NaN are not compared: there the example inputs are
    outside the domain of a function."""
    tolerance = 1e-7 if jnp.result_type(float) == jnp.float64 else 1e-3
    ours, torchs = np.asarray(computed), expected.detach().numpy()
    finite = np.isfinite(ours) & np.isfinite(torchs)
    size = 1 + np.max(np.abs(torchs[finite]), initial=0.0)
    return np.allclose(ours[finite], torchs[finite], rtol=0.0, atol=tolerance * size)


# Torch decomposes operators into simpler ones, but not these, which are better in JAX.
_KEPT_OPERATORS = """
bilinear.default celu.default detach.default linear.default logaddexp.default
logsumexp.default matmul.default mish.default mv.default _prelu_kernel.default
roll.default select_scatter.default sinc.default softplus.default stack.default
xlogy.Tensor xlogy.Scalar_Self xlogy.Scalar_Other
""".split()
# Options for the storage of a tensor.
_IGNORED_OPTIONS = {"device", "layout", "memory_format", "non_blocking", "pin_memory"}
_HINTS = {
    "_local_scalar_dense": "It takes a number out of a tensor, as `.item()`, `float()` "
    "and `int()` do: keep it a tensor.",
    "native_dropout": "It is dropout in training mode: leave it out, or turn it off.",
}
_RANDOM = "It draws random numbers; a differential equation needs a function."


def convert(
    module: torch.nn.Module, example: ExampleInputs
) -> tuple[ConvertedProgram, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Convert a module in double precision (see `double_copy`). Return the program, and
    by name the values of the parameters that are learned and of the constants that it
    uses: buffers, and parameters without `requires_grad`."""
    learned = [name for name, p in module.named_parameters() if p.requires_grad]
    with double_precision():
        program = _translate(module, _export(module, example.inputs), example)
        arrays = {
            name: tensor.detach().numpy().copy()
            for name, tensor in tensors_of(module).items()
        }
        parameters = {name: arrays[name] for name in learned}
        unlearned = [name for name in program.tensors if name not in parameters]
        constants = {name: arrays[name] for name in unlearned}
        check_agreement(module, program, parameters, constants, example)
    return program, parameters, constants


def tensors_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers of a module by name.

    A tensor with several names is listed under the first one."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


@functools.cache
def _decompositions() -> Any:
    """Return torch's table of decompositions, without the operators that are kept."""
    table = torch.export.default_decompositions()
    for name in _KEPT_OPERATORS:
        packet, overload = name.split(".")
        table.pop(getattr(getattr(torch.ops.aten, packet), overload), None)
    return table


def _export(
    module: torch.nn.Module, inputs: tuple[Any, ...]
) -> torch.export.ExportedProgram:
    """Export the graph of a module, or say which line cannot be exported."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # Torch prints graphs there.
            exported = torch.export.export(module, inputs, strict=False)
            return exported.run_decompositions(_decompositions())
    except Exception as error:
        place = users_line(traceback.extract_tb(error.__traceback__))
        if "DataDependent" in type(error).__name__:
            raise ValueError(
                f"{forward_name(module)} decides by the value of a tensor, or takes it "
                f"as a Python number, at {place}. It is converted once for all values: "
                "choose with `torch.where(condition, a, b)` instead of `if`, run loops "
                "a fixed number of times, and keep numbers in tensors."
            ) from error
        raise ValueError(
            f"torch.export cannot follow {forward_name(module)}, at {place}. Use "
            f"torch's own functions on tensors there. It says: "
            f"{str(error).splitlines()[0]}"
        ) from error


def _translate(
    module: torch.nn.Module,
    exported: torch.export.ExportedProgram,
    example: ExampleInputs,
) -> ConvertedProgram:
    """Turn the nodes of a graph into steps. A node that depends neither on an input nor
    on a tensor of the module is a constant, which torch computes now."""
    nodes = list(exported.graph.nodes)
    output = next(n for n in reversed(nodes) if n.op == "output").args[0][-1]
    needed, waiting = set(), [output]
    while waiting:  # The nodes that the output depends on.
        if (node := waiting.pop()) not in needed:
            needed.add(node)
            waiting.extend(node.all_input_nodes)
    refs, tensors, inputs, constants = {}, [], [], {}
    first_names, kinds = _first_names(module), torch.export.graph_signature.InputKind
    for spec, node in zip(exported.graph_signature.input_specs, nodes):
        target = spec.target or ""
        if spec.kind == kinds.USER_INPUT:
            inputs.append(node)
        elif spec.kind == kinds.CONSTANT_TENSOR:
            constants[node] = exported.constants[target]
        elif node in needed:
            name = first_names[target]
            if name not in tensors:
                tensors.append(name)
            refs[node] = Ref(tensors.index(name))
    first_step = len(tensors) + len(inputs)
    refs |= {node: Ref(len(tensors) + number) for number, node in enumerate(inputs)}
    steps = []
    for node in nodes:
        if node.op != "call_function" or node not in needed:
            continue
        if refs.keys().isdisjoint(node.all_input_nodes):
            constants[node] = _constant_value(module, node, constants)
        else:
            steps.append(_step(module, node, refs, constants))
            refs[node] = Ref(first_step + len(steps) - 1)
    leaves, structure = jax.tree.flatten(example.inputs)
    return ConvertedProgram(
        tensors=tuple(tensors),
        inputs=tuple(tuple(tensor.shape) for tensor in leaves),
        structure=structure,
        steps=tuple(steps),
        output=_argument(output, refs, constants),
        shape=(example.dimension,),
    )


def _first_names(module: torch.nn.Module) -> dict[str, str]:
    """Return for each name of a tensor the first name of the same tensor. So a tensor
    that several layers share is learned as one parameter."""
    first = {id(tensor): name for name, tensor in tensors_of(module).items()}
    all_names = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    return {name: first[id(tensor)] for name, tensor in all_names}


def _operator_name(node: Any) -> str:
    """Return the name of a node's operator in `OPERATORS`."""
    if node.target is operator.getitem:
        return "getitem"
    return str(node.target).removeprefix("aten.")


def _step(
    module: torch.nn.Module, node: Any, refs: dict, constants: dict
) -> OperatorCall:
    """Return the step of one node."""
    if _operator_name(node) not in OPERATORS:
        _raise_unsupported(module, node)
    value = node.meta.get("val")
    has_several_results = not isinstance(value, torch.Tensor)
    if not has_several_results and not all(isinstance(n, int) for n in value.shape):
        hint = "The shape of its result depends on values of tensors."
        _raise_unsupported(module, node, hint)
    options = {
        key: _argument(option, refs, constants)
        for key, option in node.kwargs.items()
        if key not in _IGNORED_OPTIONS
    }
    return OperatorCall(
        _operator_name(node),
        _argument(node.args, refs, constants),
        options,
        None if has_several_results else _dtype(value.dtype),
        _place(node),
    )


def _argument(value: Any, refs: dict, constants: dict) -> Any:
    """Return an argument of a node for `Step`, without torch objects."""
    if isinstance(value, torch.fx.Node):
        return refs[value] if value in refs else _argument(constants[value], refs, {})
    if isinstance(value, torch.Tensor):
        return ConstantArray.of(value.detach().numpy())
    if isinstance(value, (list, tuple)):
        return tuple(_argument(item, refs, constants) for item in value)
    return _dtype(value) if isinstance(value, torch.dtype) else value


def _dtype(dtype: torch.dtype) -> str:
    """Return the name of a type, which numpy and torch share."""
    return str(dtype).removeprefix("torch.")


def _constant_value(module: torch.nn.Module, node: Any, constants: dict) -> Any:
    """Return the value of a node that depends on constants only, computed by torch."""
    if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        _raise_unsupported(module, node)
    arguments = torch.fx.map_arg((node.args, node.kwargs), lambda n: constants[n])
    if _operator_name(node).startswith("empty"):
        return torch.zeros(*arguments[0], dtype=node.meta["val"].dtype)
    return node.target(*arguments[0], **arguments[1])


def _raise_unsupported(module: torch.nn.Module, node: Any, hint: str = "") -> NoReturn:
    """Raise an error for an operator that is not supported."""
    if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        hint = _RANDOM
    hint = _HINTS.get(_operator_name(node).split(".")[0], hint)
    raise NotImplementedError(
        f"{forward_name(module)} uses the operator `{node.target}`, which is not "
        f"supported, at {_place(node)}. {hint}".rstrip()
    )


def _place(node: Any) -> str:
    """Return the line of the user's code from which a node comes."""
    stack = re.findall(
        r'File "(.*)", line (\d+), in (.*)\n\s*(.*)', node.meta.get("stack_trace") or ""
    )
    frames = [
        traceback.FrameSummary(file, int(line), where, line=code)
        for file, line, where, code in stack
    ]
    return users_line(frames) if frames else "a place that torch does not report"
