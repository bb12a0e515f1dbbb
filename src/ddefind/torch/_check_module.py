"""A torch module on trial: its copy in double precision, and the shapes that it wants.

`forward` is called on random numbers before anything is converted. So a module that
would not do is refused with its own error, or with one that says what to change."""

import contextlib
import copy
import inspect
import logging
import sysconfig
import traceback
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, final

from .._util.errors import check_instance
from ._import_torch import torch

# States of up to so many components are tried where none are given.
_MOST = 64
# Lines there are not the user's.
_OTHERS = (
    str(Path(torch.__file__).parent),
    str(Path(__file__).parent),
    sysconfig.get_path("stdlib"),
    "<string>",
    "<eval_with_key>",
)
_MOODY = (
    torch.nn.modules.dropout._DropoutNd,
    torch.nn.modules.batchnorm._BatchNorm,
    torch.nn.RReLU,
)


class Trial(NamedTuple):
    """Arguments on which `forward` works, and d, the number of components."""

    inputs: tuple[torch.Tensor, ...]
    dimension: int


def name_of(module: torch.nn.Module) -> str:
    return f"`{type(module).__name__}.forward`"


def place_in(frames: Iterable[traceback.FrameSummary]) -> str:
    """The last line that is the user's, for messages."""
    frames = list(frames)
    mine = [f for f in frames if not f.filename.startswith(_OTHERS)]
    frame = (mine or frames)[-1]
    return f"{frame.filename}:{frame.lineno}: `{(frame.line or '').strip()}`"


@contextlib.contextmanager
def in_double() -> Iterator[None]:
    """New tensors are float64, and torch is quiet."""
    before, disabled = torch.get_default_dtype(), logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(before)
            logging.disable(disabled)


def arguments_of(module: torch.nn.Module) -> list[str]:
    """The names of the arguments that `forward` cannot do without."""
    found = inspect.signature(module.forward).parameters.values()
    named = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [p.name for p in found if p.kind in named and p.default is p.empty]


def as_double(argument: str, module: Any) -> torch.nn.Module:
    """A copy of a module on the CPU in double precision, after a look at its parts."""
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
    check_mode(argument, moody_parts(module))
    copied = copy.deepcopy(module).to("cpu", torch.float64)
    for part in copied.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                setattr(part, name, value.detach().to("cpu", torch.float64))
    return copied


def moody_parts(module: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    """The parts that do something else in training mode."""
    return [
        (name, part)
        for name, part in module.named_modules()
        if isinstance(part, _MOODY) and getattr(part, "p", 1) > 0
    ]


def check_mode(argument: str, parts: list[tuple[str, torch.nn.Module]]) -> None:
    for name, part in parts:
        if part.training:
            raise ValueError(
                f"`{argument}` has {type(part).__name__} ({name!r}) in training mode, "
                "which is random or keeps state; a differential equation needs a "
                "function. Call `.eval()` on the module first."
            )


@final
class _Moved(Exception):
    """A tensor was about to leave the CPU."""


@final
class _StayOnCPU(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        wanted = [kwargs.get("device")] + (list(args[1:]) if name == "to" else [])
        if name in ("cuda", "xpu"):
            wanted.append(name)
        for device in wanted:
            if isinstance(device, torch.Tensor):
                device = device.device
            if isinstance(device, int) and not isinstance(device, bool):
                device = f"cuda:{device}"
            if isinstance(device, (str, torch.device)):
                if torch.device(device).type != "cpu":
                    raise _Moved(device, place_in(traceback.extract_stack()))
        return func(*args, **kwargs)


def _run(module: torch.nn.Module, inputs) -> tuple[Any, Any, list[str]]:
    """`forward`, twice on the same arguments, and the buffers that it changed."""
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    with in_double(), torch.no_grad(), _StayOnCPU():
        result, again = module(*inputs), module(*inputs)
    after = module.named_buffers()
    return result, again, [name for name, b in after if not _same(before[name], b)]


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))


def _check_result(module: torch.nn.Module, result, again, changed: list[str]) -> None:
    name = name_of(module)
    if not isinstance(result, torch.Tensor):
        kind = type(result).__name__
        raise TypeError(f"{name} must return one tensor, but returned {kind}.")
    if changed:
        raise ValueError(
            f"{name} changes its buffer {changed[0]!r}: it keeps state from one call "
            "to the next. A differential equation needs a function of its arguments."
        )
    if not _same(result, again):
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


def _random(shapes) -> tuple[torch.Tensor, ...]:
    """Numbers between 1/2 and 3/2: not special, and in the domain of most functions."""
    generator = torch.Generator().manual_seed(0)
    return tuple(
        torch.rand(shape, generator=generator, dtype=torch.float64) + 0.5
        for shape in shapes
    )


def _find(module: torch.nn.Module, candidates, hint: str = "") -> Trial:
    """The first shapes for which `forward` gives a vector of the right dimension
    (None: of any); an error of `forward` itself passes as it is, with a note."""
    failed, others = [], []
    for shapes, dimension in candidates:
        inputs = _random(shapes)
        try:
            outcome = _run(module, inputs)
        except _Moved as error:
            device, place = error.args
            raise ValueError(
                f"{name_of(module)} moves a tensor to the device {str(device)!r} at "
                f"{place}. It is compiled as a whole: leave devices out of `forward`."
            ) from None
        except Exception as error:
            failed.append((error, shapes))
            continue
        _check_result(module, *outcome)
        result = outcome[0]
        d = result.numel() if dimension is None else dimension
        allowed = [(d,), (1, d)] + ([()] if d == 1 else [])
        if d > 0 and tuple(result.shape) in allowed:
            return Trial(inputs, d)
        others.append((tuple(result.shape), shapes))
    if others:
        found, shapes = others[0]
        raise ValueError(
            f"{name_of(module)} returned shape {found} for arguments of the shapes "
            f"{_listed(shapes)}. It must return a vector: a right-hand side one "
            "derivative per component of the state, a history the state."
        )
    error, shapes = failed[0]
    error.add_note(
        f"ddefind called {name_of(module)} on tensors of the shapes {_listed(shapes)}."
        + hint
    )
    raise error


def _listed(shapes) -> str:
    return ", ".join(map(str, shapes))


def try_rhs(module: torch.nn.Module, dimension: int | None) -> Trial:
    """`forward(x, y, tau, t)`, with states of shape (d,). Times are 0-d or, if that
    fails, vectors of one number; last, for d = 1, states are 0-d."""

    def candidates():
        for d in range(1, _MOST + 1) if dimension is None else [dimension]:
            yield ((d,), (d,), (), ()), d
            yield ((d,), (d,), (1,), (1,)), d
            if d == 1:
                yield ((), (), (), ()), d

    tried = f" No other d up to {_MOST} did: give `dimension` to see what fails there."
    return _find(module, candidates(), tried if dimension is None else "")


def try_history(
    module: torch.nn.Module, rows: tuple[tuple[int, ...], ...] = ()
) -> Trial:
    """`forward(t, *rows)`, with a 0-d time, or a vector of one number if that fails."""
    return _find(module, [(((), *rows), None), (((1,), *rows), None)])
