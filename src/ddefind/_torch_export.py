"""From a torch module to a program: `torch.export`, operators by name, and a check.

The check compares the program with torch itself, values and derivatives, on random
numbers. It finds what an exported graph cannot show, such as a derivative of the
user's own."""

import contextlib
import copy
import functools
import io
import operator
import re
import traceback
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from torch.export.graph_signature import InputKind

from ._aten import OPERATORS
from ._program import Literal, Program, Ref, Step
from ._pytorch import torch
from ._torch_trial import Trial, arguments_of, in_double, name_of, place_in

# Operators with a better form in JAX than what torch takes them apart into.
_KEPT = """
bilinear.default celu.default detach.default linear.default logaddexp.default
logsumexp.default matmul.default mish.default mv.default _prelu_kernel.default
roll.default select_scatter.default sinc.default softplus.default stack.default
xlogy.Tensor xlogy.Scalar_Self xlogy.Scalar_Other
""".split()
# They say where a tensor lies, not what it is.
_IGNORED = {"device", "layout", "memory_format", "non_blocking", "pin_memory"}
_HINTS = {
    "_local_scalar_dense": "It takes a number out of a tensor, as `.item()`, `float()` "
    "and `int()` do: keep it a tensor.",
    "native_dropout": "It is dropout in training mode: call `.eval()`, or leave it out.",
}
_RANDOM = "It draws random numbers; a differential equation needs a function."


class Conversion(NamedTuple):
    """A program with the tensors that it starts from, by name: parameters that are
    learned, and constants (buffers, and parameters without `requires_grad`)."""

    program: Program
    parameters: dict[str, np.ndarray]
    constants: dict[str, np.ndarray]


def convert(module: torch.nn.Module, trial: Trial) -> Conversion:
    """Convert a module in double precision (see `as_double`) that passed its trial."""
    tensors = tensors_of(module)
    learned = [name for name, p in module.named_parameters() if p.requires_grad]
    with in_double():
        program = _translate(module, _export(module, trial.inputs), trial)
        arrays = {name: tensor.detach().numpy() for name, tensor in tensors.items()}
        parameters = {name: arrays[name].copy() for name in learned}
        constants = {
            name: arrays[name].copy()
            for name in program.tensors
            if name not in parameters
        }
        conversion = Conversion(program, parameters, constants)
        _verify(module, conversion, trial)
    return conversion


def tensors_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name; what has several names, by its first."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


@functools.cache
def _decompositions() -> Any:
    table = torch.export.default_decompositions()
    for name in _KEPT:
        packet, overload = name.split(".")
        table.pop(getattr(getattr(torch.ops.aten, packet), overload), None)
    return table


def _export(module: torch.nn.Module, inputs) -> torch.export.ExportedProgram:
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # torch writes graphs there
            exported = torch.export.export(module, inputs, strict=False)
            return exported.run_decompositions(_decompositions())
    except Exception as error:
        place = place_in(traceback.extract_tb(error.__traceback__))
        if "DataDependent" in type(error).__name__:
            raise ValueError(
                f"{name_of(module)} decides by the value of a tensor, at {place}. It "
                "is converted once for all values: choose with `torch.where(condition, "
                "a, b)` instead of `if`, and run loops a fixed number of times."
            ) from error
        raise ValueError(
            f"torch.export cannot follow {name_of(module)}, at {place}. Use torch's "
            f"own functions on tensors there. It says: {str(error).splitlines()[0]}"
        ) from error


def _translate(module, exported: torch.export.ExportedProgram, trial: Trial) -> Program:
    """The graph as steps. What depends on no input and no tensor of the module is
    computed by torch, now."""
    nodes = list(exported.graph.nodes)
    output = next(n for n in reversed(nodes) if n.op == "output").args[0][-1]
    needed = _needed(output)
    tensors, inputs, constants = {}, [], {}
    names = _first_names(module)
    for spec, node in zip(exported.graph_signature.input_specs, nodes):
        if spec.kind == InputKind.USER_INPUT:
            inputs.append(node)
        elif spec.kind == InputKind.CONSTANT_TENSOR:
            constants[node] = exported.constants[spec.target]
        elif node in needed:
            tensors[node] = names[spec.target]
    refs = {node: Ref(number) for number, node in enumerate([*tensors, *inputs])}
    steps = []
    for node in nodes:
        if node.op != "call_function" or node not in needed:
            continue
        if refs.keys().isdisjoint(node.all_input_nodes):
            constants[node] = _fold(module, node, constants)
        else:
            steps.append(_step(module, node, refs, constants))
            refs[node] = Ref(len(refs))
    return Program(
        tensors=tuple(tensors.values()),
        inputs=tuple(tuple(tensor.shape) for tensor in trial.inputs),
        steps=tuple(steps),
        output=_argument(output, refs, constants),
        shape=(trial.dimension,),
    )


def _first_names(module: torch.nn.Module) -> dict[str, str]:
    """For each name of a tensor the first one: what is shared is learned once."""
    first = {id(tensor): name for name, tensor in tensors_of(module).items()}
    shared = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    return {name: first[id(tensor)] for name, tensor in shared}


def _needed(output: Any) -> set:
    """The nodes that the output depends on."""
    found, todo = set(), [output]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo.extend(node.all_input_nodes)
    return found


def _name(node: Any) -> str:
    if node.target is operator.getitem:
        return "getitem"
    return str(node.target).removeprefix("aten.")


def _step(module, node: Any, refs, constants) -> Step:
    if _name(node) not in OPERATORS:
        _refuse(module, node)
    value = node.meta.get("val")
    several = not isinstance(value, torch.Tensor)
    if not several and not all(isinstance(size, int) for size in value.shape):
        _refuse(module, node, "The shape of its result depends on values of tensors.")
    options = {key: o for key, o in node.kwargs.items() if key not in _IGNORED}
    return Step(
        _name(node),
        _argument(node.args, refs, constants),
        _argument(tuple(options.items()), refs, constants),
        None if several else _dtype(value.dtype),
        _place(node),
    )


def _argument(value: Any, refs, constants) -> Any:
    if isinstance(value, torch.fx.Node):
        return refs[value] if value in refs else _argument(constants[value], refs, {})
    if isinstance(value, torch.Tensor):
        return Literal.of(value.detach().numpy())
    if isinstance(value, (list, tuple)):
        return tuple(_argument(item, refs, constants) for item in value)
    return _dtype(value) if isinstance(value, torch.dtype) else value


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _fold(module, node: Any, constants) -> Any:
    """The value of a node that depends on constants only."""
    if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        _refuse(module, node)
    arguments = torch.fx.map_arg((node.args, node.kwargs), lambda n: constants[n])
    if _name(node).startswith("empty"):
        return torch.zeros(*arguments[0], dtype=node.meta["val"].dtype)
    return node.target(*arguments[0], **arguments[1])


def _refuse(module, node: Any, hint: str = "") -> NoReturn:
    if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        hint = _RANDOM
    hint = _HINTS.get(_name(node).split(".")[0], hint)
    raise NotImplementedError(
        f"{name_of(module)} uses the operator `{node.target}`, which is not supported, "
        f"at {_place(node)}. {hint}".rstrip()
    )


def _place(node: Any) -> str:
    found = re.findall(
        r'File "(.*)", line (\d+), in (.*)\n\s*(.*)', node.meta.get("stack_trace") or ""
    )
    frames = [
        traceback.FrameSummary(file, int(line), where, line=code)
        for file, line, where, code in found
    ]
    return place_in(frames) if frames else "a place that torch does not tell"


@functools.partial(jax.jit, static_argnums=0)
def _pulled(program: Program, constants, parameters, inputs, cotangent):
    def run(parameters, inputs):
        return program({**constants, **parameters}, *inputs)

    result, back = jax.vjp(run, parameters, inputs)
    return result, *back(cotangent)


def _verify(module: torch.nn.Module, conversion: Conversion, trial: Trial) -> None:
    """Torch's own result and derivatives, where the trial was, against the program's."""
    program, parameters, constants = conversion
    learned = [dict(module.named_parameters())[name] for name in parameters]
    inputs = [tensor.clone().requires_grad_() for tensor in trial.inputs]
    cotangent = torch.linspace(0.5, 1.5, trial.dimension)
    with torch.enable_grad():
        result = module(*inputs).reshape(-1)
    arrays = tuple(tensor.detach().numpy() for tensor in inputs)
    value, on_parameters, on_inputs = _pulled(
        program, constants, parameters, arrays, cotangent.numpy()
    )
    if not _close(value, result):
        raise RuntimeError(
            f"The conversion of {name_of(module)} gives {np.asarray(value)}, but torch "
            f"{result.detach().numpy()}. This is an error of ddefind: please report it."
        )
    slopes = _slopes(result, learned + inputs, cotangent)
    found = [*(on_parameters[name] for name in parameters), *on_inputs]
    for name, mine, slope in zip([*parameters, *arguments_of(module)], found, slopes):
        if slope is not None and not _close(mine, slope):
            raise ValueError(
                f"{name_of(module)} has a derivative for {name!r} that is not the one "
                "of its operations. Leave out `torch.no_grad()` (use `.detach()`) and "
                "`torch.autograd.Function`."
            )


def _slopes(result: torch.Tensor, wanted: list, cotangent: torch.Tensor) -> list:
    """Torch's derivatives, None where it has none."""
    if not result.requires_grad:
        return [torch.zeros(tensor.shape) for tensor in wanted]
    try:
        slopes = torch.autograd.grad(result, wanted, cotangent, allow_unused=True)
    except RuntimeError:  # An operator such as `heaviside` has no derivative in torch.
        return [None] * len(wanted)
    return [torch.zeros(w.shape) if s is None else s for w, s in zip(wanted, slopes)]


def _close(mine: Any, expected: torch.Tensor) -> bool:
    """Whether the numbers agree. A NaN, outside the domain of a function, says
    nothing."""
    tolerance = 1e-7 if jnp.result_type(float) == jnp.float64 else 1e-3
    mine, expected = np.asarray(mine), expected.detach().numpy()
    known = np.isfinite(mine) & np.isfinite(expected)
    size = 1 + np.max(np.abs(expected[known]), initial=0.0)
    return np.allclose(mine[known], expected[known], rtol=0.0, atol=tolerance * size)


def with_values(
    module: torch.nn.Module, arrays: Mapping[str, np.ndarray]
) -> torch.nn.Module:
    """A copy of a module with other values of its parameters."""
    copied = copy.deepcopy(module)
    parameters = dict(copied.named_parameters())
    with torch.no_grad():
        for name, array in arrays.items():
            parameters[name].copy_(torch.from_numpy(np.array(array)))
    return copied
