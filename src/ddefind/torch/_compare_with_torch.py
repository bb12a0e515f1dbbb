"""A program against torch itself: values and derivatives, on random numbers.

This finds what an exported graph does not show, such as a derivative of the user's
own."""

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._check_module import Trial, arguments_of, name_of
from ._converted_program import TorchProgram
from ._import_torch import torch


@functools.partial(jax.jit, static_argnums=0)
def pull_back(program: TorchProgram, constants, parameters, inputs, cotangent):
    """A program's result, and from its cotangent those of parameters and inputs."""

    def run(parameters, inputs):
        return program({**constants, **parameters}, *inputs)

    result, back = jax.vjp(run, parameters, inputs)
    return result, *back(cotangent)


def verify(
    module: torch.nn.Module,
    program: TorchProgram,
    parameters: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray],
    trial: Trial,
) -> None:
    """Refuse a program whose result or derivatives differ from torch's at the trial."""
    learned = [dict(module.named_parameters())[name] for name in parameters]
    inputs = [tensor.clone().requires_grad_() for tensor in trial.inputs]
    cotangent = torch.linspace(0.5, 1.5, trial.dimension)
    with torch.enable_grad():
        result = module(*inputs).reshape(-1)
    arrays = tuple(tensor.detach().numpy() for tensor in inputs)
    value, on_parameters, on_inputs = pull_back(
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
    found, wanted = np.asarray(mine), expected.detach().numpy()
    known = np.isfinite(found) & np.isfinite(wanted)
    size = 1 + np.max(np.abs(wanted[known]), initial=0.0)
    return np.allclose(found[known], wanted[known], rtol=0.0, atol=tolerance * size)
