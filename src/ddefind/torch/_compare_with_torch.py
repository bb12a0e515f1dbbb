"""Compare a converted program with the torch module: its values and derivatives.

This finds what an exported graph does not show, such as a derivative that the user has
defined in a `torch.autograd.Function`.
"""

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._check_module import ExampleInputs, forward_name, required_arguments
from ._converted_program import ConvertedProgram
from ._import_torch import torch


@functools.partial(jax.jit, static_argnums=0)
def value_and_vjp(
    program: ConvertedProgram,
    constants: Mapping[str, Any],
    parameters: Mapping[str, Any],
    inputs: tuple,
    cotangent: Any,
) -> tuple[jax.Array, dict[str, jax.Array], tuple]:
    """The result of a program, and the cotangents of its parameters and inputs."""

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
    """The names of the inputs of `forward`, such as `x` and `y['growth']`."""
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
    """The cotangents of the `tensors` as torch computes them, None if it cannot."""
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
