"""`from_torch`: a `torch.nn.Module` as a right-hand side or a history; and back.

Torch is imported when a module is converted, not before."""

import copy
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from .._problem.problem import Problem
from .._util.arrays import as_parameter

if TYPE_CHECKING:
    import torch

    from ._converted_program import Literal, TorchProgram


@final
class _Origin:
    """The torch module that was converted. Two conversions are alike if their programs
    are, so that all origins are equal."""

    def __init__(self, module: Any):
        self.module = module

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Origin)

    def __hash__(self) -> int:
        return 0


@final
@jax.tree_util.register_pytree_with_keys_class
class TorchModule:
    """A converted torch module: a JAX function, whose parameters are those of the torch
    module, under the names that they have there.

    `module["net.0.weight"]` is a parameter, and so is `module.theta_0`, where the name
    is a single word."""

    def __init__(
        self,
        parameters: Mapping[str, Any],
        program: "TorchProgram",
        constants: "tuple[tuple[str, Literal], ...]",
        origin: _Origin,
    ):
        self._parameters = dict(parameters)
        self._program = program
        self._constants = constants
        self._origin = origin

    def tree_flatten_with_keys(self):
        keys = map(jax.tree_util.GetAttrKey, self._parameters)
        rest = tuple(self._parameters), self._program, self._constants, self._origin
        return tuple(zip(keys, self._parameters.values())), rest

    @classmethod
    def tree_unflatten(cls, rest, values):
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
        """F(x, y, tau, t), or X0(t)."""
        if len(inputs) == 4 and jnp.shape(inputs[0]) != self._program.shape:
            shape = jnp.shape(inputs[0])
            raise ValueError(
                f"{self!r} was converted for states of shape {self._program.shape}, "
                f"but got {shape}. Convert it with `from_torch(module, dimension="
                f"{shape[-1] if shape else 1})`."
            )
        constants = {name: literal.array for name, literal in self._constants}
        return self._program({**constants, **self._parameters}, *inputs)

    def to_torch(self) -> "torch.nn.Module":
        """The torch module, a copy, with the parameters as they are here."""
        from ._convert import with_values

        arrays = {name: np.asarray(a) for name, a in self._parameters.items()}
        return with_values(self._origin.module, arrays)


def from_torch(
    module: "torch.nn.Module", *, dimension: int | None = None
) -> TorchModule:
    r"""A `torch.nn.Module` as a right-hand side or a history, compiled like our own.

    A right-hand side has `forward(x, y, tau, t)`, with states of shape (d,) and 0-d
    times, and returns x'. A history has `forward(t)` and returns the state; a 0-d
    result stands for one component. The module is converted once, by `torch.export`,
    and computed in float64, whatever its own type; `fit.to_torch()` gives it back, of
    its own type.

    Parameters keep their torch names (`rhs.net.0.weight`) and are learned. Buffers, and
    parameters with `requires_grad=False`, are constants.

    **Arguments**

    - `dimension`: d, for a right-hand side. By default the smallest for which `forward`
      returns one derivative per component: give it where that is too few, as for a
      product such as `-x * y`, which does for any.

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
    from ._check_module import arguments_of, as_double, try_history, try_rhs
    from ._convert import convert
    from ._converted_program import Literal

    copied = as_double("module", module)
    arguments = arguments_of(module)
    if len(arguments) == 4:
        trial = try_rhs(copied, _check_dimension(dimension))
    elif len(arguments) == 1 and dimension is None:
        trial = try_history(copied)
    else:
        raise TypeError(
            f"`{type(module).__name__}.forward` takes ({', '.join(arguments)}), but a "
            "right-hand side is `forward(x, y, tau, t)` and a history `forward(t)`. "
            "Name every argument, also those that the equation does not use."
            + (" Only a right-hand side has a `dimension`." if dimension else "")
        )
    program, parameters, constants = convert(copied, trial)
    if len(arguments) == 4 and not program.uses(1):
        warnings.warn(
            f"`{type(module).__name__}.forward` does not use `{arguments[1]}`, the "
            "state one delay ago: the equation has no delay, and data say nothing of "
            "`tau`.",
            stacklevel=2,
        )
    return TorchModule(
        {name: as_parameter(array) for name, array in parameters.items()},
        program,
        tuple((name, Literal.of(array)) for name, array in constants.items()),
        _Origin(copy.deepcopy(module)),
    )


def _check_dimension(dimension: Any) -> int | None:
    if dimension is None:
        return None
    if not isinstance(dimension, (int, np.integer)) or dimension < 1:
        raise ValueError(f"`dimension` must be a positive integer, got {dimension!r}.")
    return int(dimension)


class TorchParts(NamedTuple):
    """What `fit.to_torch()` returns: the learned torch modules, None in place of what
    is no torch module, and the delay."""

    rhs: "torch.nn.Module | None"
    history: "torch.nn.Module | None"
    tau: float


def to_torch(problem: Problem) -> TorchParts:
    """The torch modules of a problem, with its values."""
    parts = [
        part.to_torch() if isinstance(part, TorchModule) else None
        for part in (problem.rhs, problem.history)
    ]
    if parts == [None, None]:
        raise TypeError(
            "Neither `rhs` nor `history` is a torch module; `from_torch(module)` makes "
            "one part of a problem."
        )
    return TorchParts(parts[0], parts[1], float(problem.tau))
