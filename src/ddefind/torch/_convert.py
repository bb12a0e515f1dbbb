"""From a torch module to a program: `torch.export`, and its graph step by step."""

import contextlib
import copy
import functools
import io
import operator
import re
import traceback
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ._check_module import Trial, in_double, name_of, place_in
from ._compare_with_torch import verify
from ._converted_program import Literal, Ref, Step, TorchProgram
from ._import_torch import torch
from ._operators import OPERATORS

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
    "native_dropout": "It is dropout in training mode: leave it out, or turn it off.",
}
_RANDOM = "It draws random numbers; a differential equation needs a function."


class Conversion(NamedTuple):
    """A program with the tensors that it starts from, by name: parameters that are
    learned, and constants (buffers, and parameters without `requires_grad`)."""

    program: TorchProgram
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
        verify(module, program, parameters, constants, trial)
    return Conversion(program, parameters, constants)


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
                f"{name_of(module)} decides by the value of a tensor, or takes it as "
                f"a Python number, at {place}. It is converted once for all values: "
                "choose with `torch.where(condition, a, b)` instead of `if`, run loops "
                "a fixed number of times, and keep numbers in tensors."
            ) from error
        raise ValueError(
            f"torch.export cannot follow {name_of(module)}, at {place}. Use torch's "
            f"own functions on tensors there. It says: {str(error).splitlines()[0]}"
        ) from error


def _translate(
    module, exported: torch.export.ExportedProgram, trial: Trial
) -> TorchProgram:
    """The graph as steps. What depends on no input and no tensor of the module is
    computed by torch, now."""
    nodes = list(exported.graph.nodes)
    output = next(n for n in reversed(nodes) if n.op == "output").args[0][-1]
    needed = _needed(output)
    refs, tensors, inputs, constants = {}, [], [], {}
    first, kinds = _first_names(module), torch.export.graph_signature.InputKind
    for spec, node in zip(exported.graph_signature.input_specs, nodes):
        target = spec.target or ""
        if spec.kind == kinds.USER_INPUT:
            inputs.append(node)
        elif spec.kind == kinds.CONSTANT_TENSOR:
            constants[node] = exported.constants[target]
        elif node in needed:
            if first[target] not in tensors:
                tensors.append(first[target])
            refs[node] = Ref(tensors.index(first[target]))
    known = len(tensors) + len(inputs)
    refs |= {node: Ref(len(tensors) + number) for number, node in enumerate(inputs)}
    steps = []
    for node in nodes:
        if node.op != "call_function" or node not in needed:
            continue
        if refs.keys().isdisjoint(node.all_input_nodes):
            constants[node] = _fold(module, node, constants)
        else:
            steps.append(_step(module, node, refs, constants))
            refs[node] = Ref(known + len(steps) - 1)
    return TorchProgram(
        tensors=tuple(tensors),
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
