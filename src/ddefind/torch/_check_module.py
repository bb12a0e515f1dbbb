"""Import PyTorch, and check a torch module before it is converted.

All other files import torch from here: an error says how to install it if it is
missing.

A copy of the module in double precision is called on random example inputs. This finds
the shapes that `forward` accepts. A module that is random, keeps state, or returns the
wrong shape is refused with an error that says what to change. An error that `forward`
itself raises is passed on."""

import contextlib
import copy
import inspect
import logging
import re
import traceback
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, final

import jax

from .._problem.delays import delay_count, in_structure, is_several
from .._util import users_code
from .._util.errors import check_instance

_OLDEST_VERSION = (2, 13)

try:
    import torch
except ImportError as error:
    raise ImportError(
        'This needs PyTorch, which is not installed: `pip install "ddefind[torch]"`.'
    ) from error


def check_version(version: str) -> None:
    """Raise an error if this version of PyTorch is too old for the conversion.

    The graphs that `torch.export` makes differ between versions.

    >>> check_version("2.13.0+cpu")
    """
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST_VERSION:
        raise ImportError(
            f"This needs PyTorch {'.'.join(map(str, _OLDEST_VERSION))} or newer, but "
            f'{version} is installed: `pip install --upgrade "ddefind[torch]"`.'
        )


check_version(torch.__version__)


# If the number of components is not given, all numbers up to this one are tried.
_MAX_DIMENSION = 64
# Torch itself is not the user's code.
_TORCH = (str(Path(torch.__file__).parent),)
# Layers whose result is random, or whose state changes, in training mode.
_TRAINING_DEPENDENT = (
    torch.nn.modules.dropout._DropoutNd,
    torch.nn.modules.batchnorm._BatchNorm,
    torch.nn.RReLU,
)


class ExampleInputs(NamedTuple):
    """Arguments on which `forward` works, and d, the number of components of the state.

    `torch.export` runs the module on these `inputs`. With several delays, y and tau of
    a right-hand side are tuples or dicts of tensors."""

    inputs: tuple[Any, ...]
    dimension: int


def forward_name(module: torch.nn.Module) -> str:
    """Return the name of a module's `forward` for error messages."""
    return f"`{type(module).__name__}.forward`"


def users_line(frames: Iterable[traceback.FrameSummary]) -> str:
    """Return the last line of the user's code in a stack trace, for error messages."""
    return users_code.users_line(frames, _TORCH)


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """Create new tensors in float64, and silence torch's warnings and log messages."""
    old_dtype, old_level = torch.get_default_dtype(), logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(old_dtype)
            logging.disable(old_level)


def required_arguments(module: torch.nn.Module) -> list[str]:
    """Return the names of the arguments of `forward` that have no default value."""
    arguments = inspect.signature(module.forward).parameters.values()
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [a.name for a in arguments if a.kind in kinds and a.default is a.empty]


def double_copy(argument: str, module: Any) -> torch.nn.Module:
    """Copy a module to the CPU in double precision.

    A module that is compiled, lazy, complex or in training mode is refused, with an
    error that names the `argument`."""
    check_instance(argument, module, torch.nn.Module, "MyModule()")
    if isinstance(module, torch.jit.ScriptModule) or hasattr(module, "_orig_mod"):
        raise TypeError(f"`{argument}` is a compiled module. Give the plain one.")
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name, tensor in tensors.items():
        if torch.nn.parameter.is_lazy(tensor):
            raise ValueError(
                f"`{argument}` is lazy: the shape of {name!r} is not known yet. Call "
                "the module once, or use a layer that is not lazy."
            )
        if tensor.is_complex():
            raise ValueError(f"`{argument}` has the complex tensor {name!r}.")
    check_not_training(argument, training_dependent_layers(module))
    copied = copy.deepcopy(module).to("cpu", torch.float64)
    for part in copied.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                setattr(part, name, value.detach().to("cpu", torch.float64))
    return copied


def training_dependent_layers(
    module: torch.nn.Module,
) -> list[tuple[str, torch.nn.Module]]:
    """Return the layers, with their names, whose result is random or depends on
    training mode; dropout with probability 0 does not."""
    return [
        (name, part)
        for name, part in module.named_modules()
        if isinstance(part, _TRAINING_DEPENDENT) and getattr(part, "p", 1) > 0
    ]


def check_not_training(
    argument: str, layers: list[tuple[str, torch.nn.Module]]
) -> None:
    """Raise an error if one of the `training_dependent_layers` is in training mode."""
    for name, layer in layers:
        if layer.training:
            raise ValueError(
                f"`{argument}` has {type(layer).__name__} ({name!r}) in training mode, "
                "which is random or keeps state; a differential equation needs a "
                "function. Call `.eval()` on the module first."
            )


@final
class _LeavesCPU(Exception):
    """Raised when `forward` is about to move a tensor to another device."""


@final
class _StayOnCPU(torch.overrides.TorchFunctionMode):
    """Raises `_LeavesCPU` for each call of torch that uses another device."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        devices = [kwargs.get("device")] + (list(args[1:]) if name == "to" else [])
        if name in ("cuda", "xpu"):
            devices.append(name)
        for device in devices:
            if isinstance(device, torch.Tensor):
                device = device.device
            if isinstance(device, int) and not isinstance(device, bool):
                device = f"cuda:{device}"
            if isinstance(device, (str, torch.device)):
                if torch.device(device).type != "cpu":
                    raise _LeavesCPU(device, users_line(traceback.extract_stack()))
        return func(*args, **kwargs)


def _run_twice(
    module: torch.nn.Module, inputs: tuple[Any, ...]
) -> tuple[Any, Any, list[str]]:
    """Call `forward` twice on the same inputs; return both results and the names of the
    buffers that it changed."""
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    with double_precision(), torch.no_grad(), _StayOnCPU():
        first, second = module(*inputs), module(*inputs)
    after = module.named_buffers()
    return first, second, [name for name, b in after if not _same(before[name], b)]


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are equal, where NaN equals NaN."""
    return torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))


def _check_result(
    module: torch.nn.Module, result: Any, second: Any, changed: list[str]
) -> None:
    """Check the type of the result, and that `forward` is a function."""
    name = forward_name(module)
    if not isinstance(result, torch.Tensor):
        kind = type(result).__name__
        raise TypeError(f"{name} must return one tensor, but returned {kind}.")
    if changed:
        raise ValueError(
            f"{name} changes its buffer {changed[0]!r}: it keeps state from one call "
            "to the next. A differential equation needs a function of its arguments."
        )
    if not _same(result, second):
        raise ValueError(
            f"{name} gave two results for the same arguments: it is random or keeps "
            "state from one call to the next. A differential equation needs a function "
            "of its arguments."
        )
    if result.dtype != torch.float64:
        raise ValueError(
            f"{name} returned {result.dtype}, although its tensors and arguments were "
            "float64: it is computed in double precision. Remove conversions such as "
            "`.float()` or `dtype=` from `forward`."
        )


def _random(shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return random tensors with elements between 1/2 and 3/2: in the domain of most
    functions, and without special values such as 0."""
    generator = torch.Generator().manual_seed(0)

    def tensor(shape: tuple[int, ...]) -> torch.Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64) + 0.5

    def is_shape(part: Any) -> bool:
        return isinstance(part, tuple) and all(isinstance(n, int) for n in part)

    return jax.tree.map(tensor, shapes, is_leaf=is_shape)


def _find_inputs(
    module: torch.nn.Module,
    candidates: Iterable[tuple[tuple[Any, ...], int | None]],
    hint: str = "",
) -> ExampleInputs:
    """Return example inputs for which `forward` returns a vector of the right size.

    Each of the `candidates` has the shapes of the arguments, which may be trees of
    shapes, and the dimension of the result (None: any). The first that works is used.
    If `forward` fails for all, its first error is raised again, with a note that ends
    in the `hint`."""
    failed, wrong_results = [], []
    for shapes, dimension in candidates:
        inputs = _random(shapes)
        try:
            result, second, changed = _run_twice(module, inputs)
        except _LeavesCPU as error:
            device, place = error.args
            raise ValueError(
                f"{forward_name(module)} moves a tensor to the device "
                f"{str(device)!r} at {place}. It is compiled as a whole: leave devices "
                "out of `forward`."
            ) from None
        except Exception as error:
            failed.append((error, shapes))
            continue
        _check_result(module, result, second, changed)
        d = result.numel() if dimension is None else dimension
        allowed = [(d,), (1, d)] + ([()] if d == 1 else [])
        if d > 0 and tuple(result.shape) in allowed:
            return ExampleInputs(inputs, d)
        wrong_results.append((tuple(result.shape), shapes))
    if wrong_results:
        result_shape, shapes = wrong_results[0]
        raise ValueError(
            f"{forward_name(module)} returned shape {result_shape} for arguments of "
            f"the shapes {', '.join(map(str, shapes))}. It must return a vector: a "
            "right-hand side one derivative per component of the state, a history the "
            "state."
        )
    error, shapes = failed[0]
    error.add_note(
        f"ddefind called {forward_name(module)} on tensors of the shapes "
        f"{', '.join(map(str, shapes))}.{hint}"
    )
    raise error


def find_rhs_inputs(
    module: torch.nn.Module, dimension: int | None, tau: Any = 1.0
) -> ExampleInputs:
    """Return example inputs of a right-hand side, `forward(x, y, tau, t)`.

    States have the shape (d,). The delay and the time have the shape () or, if
    `forward` fails for that, (1,). The last resort, for d = 1 only, are states of
    shape (). If `tau` has several delays, y and tau have the same structure."""

    def shapes(state: tuple[int, ...], time: tuple[int, ...]) -> tuple[Any, ...]:
        y, delays = (
            in_structure(tau, [one] * delay_count(tau)) for one in (state, time)
        )
        return state, y, delays, time

    def candidates() -> Iterator[tuple[tuple[Any, ...], int]]:
        for d in range(1, _MAX_DIMENSION + 1) if dimension is None else [dimension]:
            yield shapes((d,), ()), d
            yield shapes((d,), (1,)), d
            if d == 1:
                yield shapes((), ()), d

    hint = ""
    if dimension is None:
        hint = (
            f" No other d up to {_MAX_DIMENSION} did: give `dimension` to see what "
            "fails there."
        )
    return _find_inputs(module, candidates(), f"{hint} {_about_delays(tau)}")


def _about_delays(tau: Any) -> str:
    """Describe y and tau, for the note on an error of `forward`."""
    if not is_several(tau):
        return (
            "y and tau are one tensor each, for one delay. For several delays give "
            "`tau` as a tuple or a dict."
        )
    kind = "dicts" if isinstance(tau, dict) else "tuples"
    count = delay_count(tau)
    delays = f"{count} delays" if count != 1 else "one delay"
    keys = f": {', '.join(map(repr, tau))}" if isinstance(tau, dict) else ""
    return f"y and tau are {kind}, as `tau` is, with {delays}{keys}."


def find_history_inputs(
    module: torch.nn.Module, further: tuple[tuple[int, ...], ...] = ()
) -> ExampleInputs:
    """Return example inputs of a history, `forward(t, *arguments)`.

    `further` has the shapes of the arguments after the time. The time has the shape ()
    or, if `forward` fails for that, (1,)."""
    return _find_inputs(module, [(((), *further), None), (((1,), *further), None)])
