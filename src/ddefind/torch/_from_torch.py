"""`from_torch` converts a `torch.nn.Module` to JAX. This file does not import torch
before a module is converted, so that ddefind can be used without it."""

import copy
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

import jax
import jax.numpy as jnp
import numpy as np

from .._problem.delays import as_delays, check_delays, delay_count, is_several
from .._util.arrays import as_parameter

if TYPE_CHECKING:
    import torch

    from ._convert import ConstantArray, ConvertedProgram


@final
class _Origin:
    """The torch module that was converted. All origins are equal: JAX compares
    converted modules to decide whether to compile again, for which only programs
    matter."""

    def __init__(self, module: Any):
        self.module = module

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Origin)

    def __hash__(self) -> int:
        return 0


@final
@jax.tree_util.register_pytree_with_keys_class
class TorchModule:
    """A torch module that was converted to a JAX function.

    It has the parameters of the torch module, under the same names:
    `module["net.0.weight"]`, or `module.theta_0` if the name is a single word."""

    def __init__(
        self,
        parameters: Mapping[str, Any],
        program: "ConvertedProgram",
        constants: "tuple[tuple[str, ConstantArray], ...]",
        origin: _Origin,
    ):
        self._parameters = dict(parameters)
        self._program = program
        self._constants = constants
        self._origin = origin

    def tree_flatten_with_keys(self) -> tuple[tuple, tuple]:
        """Return for JAX the parameters with their names, and everything else."""
        keys = map(jax.tree_util.GetAttrKey, self._parameters)
        rest = tuple(self._parameters), self._program, self._constants, self._origin
        return tuple(zip(keys, self._parameters.values())), rest

    @classmethod
    def tree_unflatten(cls, rest: tuple, values: Any) -> "TorchModule":
        """Invert `tree_flatten_with_keys`, for JAX."""
        names, program, constants, origin = rest
        return cls(dict(zip(names, values)), program, constants, origin)

    def __getitem__(self, name: str) -> Any:
        return self._parameters[name]

    def __getattr__(self, name: str) -> Any:
        parameters = vars(self).get("_parameters", {})
        if name not in parameters:
            raise AttributeError(
                f"There is no parameter {name!r}; there are: {', '.join(parameters)}."
            )
        return parameters[name]

    def __repr__(self) -> str:
        name = type(self._origin.module).__name__
        return f"from_torch({name}: {', '.join(self._parameters)})"

    def __call__(self, *inputs: Any) -> jax.Array:
        """Compute the right-hand side F(x, y, tau, t), or the history X0(t)."""
        structure = self._program.structure
        if jax.tree.structure(inputs) != structure:
            wanted = structure.unflatten(["a tensor"] * structure.num_leaves)
            if len(inputs) != len(wanted):
                raise TypeError(
                    f"{self!r} takes {len(wanted)} arguments, but got {len(inputs)}."
                )
            raise ValueError(
                f"{self!r} was converted for {_describe_delays(wanted[2])}, but the "
                f"problem has {_describe_delays(inputs[2])}. Give the same `tau` to "
                "both: `Problem(from_torch(module, tau=tau), history, tau)`."
            )
        if len(inputs) == 4 and jnp.shape(inputs[0]) != self._program.shape:
            shape = jnp.shape(inputs[0])
            raise ValueError(
                f"{self!r} was converted for states of shape {self._program.shape}, "
                f"but got {shape}. Convert it with `from_torch(module, dimension="
                f"{shape[-1] if shape else 1})`."
            )
        constants = {name: constant.array for name, constant in self._constants}
        return self._program({**constants, **self._parameters}, *inputs)

    def network_of(self, parameter: str) -> str | None:
        """Return the outermost layer of `torch.nn` that a parameter belongs to, such as
        `net` for `net.0.weight`; None if it is a parameter of the user's own module."""
        inside, names = self._origin.module, parameter.split(".")[:-1]
        for depth in range(len(names) + 1):
            if type(inside).__module__.startswith("torch.nn."):
                return ".".join(names[:depth])
            inside = getattr(inside, names[depth]) if depth < len(names) else None
        return None

    def to_torch(self) -> "torch.nn.Module":
        """Copy the original torch module, with the present parameter values."""
        import torch

        module = copy.deepcopy(self._origin.module)
        parameters = dict(module.named_parameters())
        with torch.no_grad():
            for name, array in self._parameters.items():
                parameters[name].copy_(torch.from_numpy(np.array(array)))
        return module


def from_torch(
    module: "torch.nn.Module", *, dimension: int | None = None, tau: Any = 1.0
) -> TorchModule:
    r"""Convert a `torch.nn.Module` to a right-hand side or a history.

    A right-hand side has `forward(x, y, tau, t)`, with states of shape (d,) and 0-d
    times, and returns x'. A history has `forward(t)` and returns the state; a 0-d
    result stands for one component. The module is converted once, by `torch.export`,
    and then runs as compiled JAX code in float64, whatever its own type is.
    `fit.to_torch()` returns the torch module with the learned parameters, in its own
    type.

    Parameters keep their torch names (`rhs.net.0.weight`) and are learned. Buffers, and
    parameters with `requires_grad=False`, are constants.

    **Arguments**

    - `module`: the torch module.
    - `dimension`: d, for a right-hand side. By default it is the smallest d for which
      `forward` returns one derivative per component. Give it if that is too small: a
      product such as `-x * y` works for every d.
    - `tau`: the delays of the problem, if there are several: a tuple or a dict. Of a
      right-hand side, y and tau then have the same structure, as in `Problem`. The
      numbers in it are not used.

    >>> import torch
    >>> class Decay(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.rate = torch.nn.Parameter(torch.tensor(0.5))
    ...     def forward(self, x, y, tau, t):
    ...         return -self.rate * y
    >>> rhs = dd.from_torch(Decay())
    >>> dd.parameter_values(dd.Problem(rhs, dd.Constant(1.0), tau=1.0))
    {'rate': 0.5, 'b': 1.0, 'tau': 1.0}
    """
    from ._check_module import (
        double_copy,
        find_history_inputs,
        find_rhs_inputs,
        required_arguments,
    )
    from ._convert import ConstantArray, convert

    copied = double_copy("module", module)
    arguments = required_arguments(module)
    if len(arguments) == 4:
        tau = as_delays(tau)
        check_delays(tau)
        example = find_rhs_inputs(copied, _check_dimension(dimension), tau)
    elif len(arguments) == 1 and dimension is None:
        example = find_history_inputs(copied)
    else:
        raise TypeError(
            f"`{type(module).__name__}.forward` takes ({', '.join(arguments)}), but a "
            "right-hand side is `forward(x, y, tau, t)` and a history `forward(t)`. "
            "Name every argument, even if the equation does not use it."
            + (" Only a right-hand side has a `dimension`." if dimension else "")
        )
    program, parameters, constants = convert(copied, example)
    if len(arguments) == 4:
        for message in _about_unused(module, program, tau):
            warnings.warn(message, stacklevel=2)
    return TorchModule(
        {name: as_parameter(array) for name, array in parameters.items()},
        program,
        tuple((name, ConstantArray.of(array)) for name, array in constants.items()),
        _Origin(copy.deepcopy(module)),
    )


def _about_unused(
    module: "torch.nn.Module", program: "ConvertedProgram", tau: Any
) -> list[str]:
    """Return a message for each delayed state that a right-hand side does not use."""
    from ._convert import input_names

    names, count = input_names(module, program.structure), delay_count(tau)
    forward = f"`{type(module).__name__}.forward`"
    return [
        f"{forward} does not use `{names[number]}`: the equation does not have this "
        f"delay, and data cannot determine `{names[count + number]}`."
        if is_several(tau)
        else f"{forward} does not use `{names[number]}`, the delayed state: the "
        "equation has no delay, and data cannot determine `tau`."
        for number in range(1, 1 + count)
        if not program.uses_input(number)
    ]


def _describe_delays(tau: Any) -> str:
    """Return the structure of delays in words, for messages."""
    if not is_several(tau):
        return "one delay"
    if isinstance(tau, dict):
        return f"a dict of the delays {', '.join(map(repr, tau))}"
    return f"a tuple of {len(tau)} delays"


def _check_dimension(dimension: Any) -> int | None:
    if dimension is None:
        return None
    if not isinstance(dimension, (int, np.integer)) or dimension < 1:
        raise ValueError(f"`dimension` must be a positive integer, got {dimension!r}.")
    return int(dimension)
