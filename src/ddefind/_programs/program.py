"""Programs for many fits: where they run, and a store of translated programs."""

import enum
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import numpy as np

from .jaxpr import UntranslatedError, size_of, trace
from .kernels import GpuKernel, ProcessorKernel, has_compiler, has_gpu
from .translate import OWN, SET, SHARED, translate
from .writer import kind_of, result_kind

# With fewer fits than this a GPU is slower than the processor: each thread is slow.
LEAST_FOR_GPU = 1000


@final
class Runner(enum.Enum):
    """A way to run a program: compiled by XLA, or translated into C and compiled for
    the processor or the GPU."""

    xla = enum.auto()
    processor = enum.auto()
    gpu = enum.auto()


def place_for(fits: int) -> Runner:
    """Return where this many fits run."""
    if fits >= LEAST_FOR_GPU and has_gpu():
        return Runner.gpu
    return Runner.processor if has_compiler() else Runner.xla


def others(place: Runner) -> tuple[Runner, ...]:
    """Return where a program runs if it cannot run at this place, the best first."""
    return (Runner.processor, Runner.xla) if place is Runner.gpu else (Runner.xla,)


_DTYPES = {
    "double": np.float64,
    "long long": np.int64,
    "int": np.int32,
    "bool": np.uint8,
}


@final
@dataclass(frozen=True)
class Program:
    """A compiled program, the types of its inputs, and the shapes and types of the
    `result` for one fit."""

    kernel: GpuKernel | ProcessorKernel
    inputs: tuple[Any, ...]
    result: Any

    def run(
        self, arrays: Sequence[Any], owners: Sequence[str], set_of: np.ndarray
    ) -> Any:
        """Compute the results of all fits, with a first axis over them."""
        given = [np.asarray(a, dtype) for a, dtype in zip(arrays, self.inputs)]
        parts, structure = jax.tree.flatten(self.result)
        outputs = [(size_of(o.shape), _DTYPES[kind_of(o.dtype)]) for o in parts]
        made = self.kernel.run(given, owners, set_of, outputs)
        results = [
            array.reshape(-1, *each.shape).astype(each.dtype, copy=False)
            for array, each in zip(made, parts)
        ]
        return jax.tree.unflatten(structure, results)


_KERNELS = {Runner.gpu: GpuKernel, Runner.processor: ProcessorKernel}
# A program has three arguments for each array, and can have 1,000 arguments.
_MOST_ARRAYS = 300
_programs: dict[Any, Program | UntranslatedError] = {}
# One for each program: threads that need another program do not wait.
_locks: defaultdict[Any, threading.Lock] = defaultdict(threading.Lock)
_log = logging.getLogger(__name__)


def run_fits(
    function: Callable[[Any, Any, Any], Any],
    shared: Any,
    of_sets: Any,
    own: Any,
    set_of: np.ndarray,
    place: Runner,
) -> Any:
    """Compute `function(shared, of its set, own)` for many fits, translated.

    Arrays of `of_sets` have a first axis over data sets, arrays of `own` one over fits;
    fit i belongs to the set `set_of[i]`. Results have a first axis over the fits.

    Raises `UntranslatedError` if a part of the function has no translation."""
    arrays, rest = eqx.partition((shared, of_sets, own), _is_array)
    leaves, structure = jax.tree.flatten(arrays)
    leaves = [np.asarray(leaf) for leaf in leaves]
    counts = [len(jax.tree.leaves(each)) for each in arrays]
    owners = [SHARED] * counts[0] + [SET] * counts[1] + [OWN] * counts[2]
    shapes = [
        leaf.shape if owner == SHARED else leaf.shape[1:]
        for leaf, owner in zip(leaves, owners)
    ]
    static, static_structure = jax.tree.flatten(rest)
    of_rest = tuple(map(type, static)), tuple(static), static_structure
    types = zip(shapes, [a.dtype for a in leaves])
    key = place, function, structure, of_rest, *types

    def of_one_fit(*values: Any) -> Any:
        return function(*eqx.combine(jax.tree.unflatten(structure, values), rest))

    with _locks[key]:
        if key not in _programs:
            examples = [np.zeros(s, a.dtype) for s, a in zip(shapes, leaves)]
            _programs[key] = _compiled(of_one_fit, examples, owners, place)
        program = _programs[key]
    if isinstance(program, UntranslatedError):
        raise program
    rows = [a[None] if owner == SHARED else a for a, owner in zip(leaves, owners)]
    return program.run(rows, owners, np.ascontiguousarray(set_of, np.int64))


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | np.generic | jax.Array)


def _compiled(
    function: Callable, examples: Sequence[Any], owners: Sequence[str], place: Runner
) -> Program | UntranslatedError:
    """Translate and compile a program, or return why this is not possible."""
    try:
        block, result = trace(function, *examples)
        if len(block.inputs) + len(block.outputs) > _MOST_ARRAYS:
            raise UntranslatedError("too many arrays")
        try:
            source = translate(block, owners)
        except UntranslatedError:
            raise
        except Exception as error:  # It must not end a fit that XLA can make.
            raise UntranslatedError(f"an unexpected program: {error!r}") from error
        inputs = tuple(_DTYPES[result_kind(v)] for v in block.inputs)
        return Program(_KERNELS[place](source), inputs, result)
    except UntranslatedError as error:
        _log.info("A program is left to XLA: %s", error)
        return error
