"""Where translated programs run: on the processor, compiled by the system's C compiler,
or on the GPU, with CuPy.

A kernel runs one program: `run(arrays, owners, set_of, outputs)` computes the outputs,
[fits, size] for each (size, type) of `outputs`."""

import ctypes
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, final

import jax
import numpy as np

from .jaxpr import UntranslatedError
from .translate import OWN, ProgramSource

# Whole numbers may overflow, and a place in memory holds numbers of both kinds.
_FLAGS = ("-x", "c", "-O1", "-shared", "-fPIC", "-w", "-fwrapv", "-fno-strict-aliasing")
# A flag that not every compiler has.
_FOR_THIS_PROCESSOR = "-march=native"
# Threads of a block (as in the source of `translate.py`), and the most threads on each
# multiprocessor.
_BLOCK, _MOST_THREADS = 64, 768
# The shares of the free memory that the threads and the results of fits may take.
_FOR_THREADS, _FOR_FITS = 0.3, 0.2

# Four programs run at a time, each in a stream of its own: while one waits for its
# slowest fits, others use the free processors.
_places = threading.Semaphore(4)
_streams: list[Any] = []


@cache
def _command() -> tuple[str, ...] | None:
    """Return the compiler with its flags, None if there is none for this processor."""
    command = shlex.split(os.environ.get("CC", "cc"))
    if not command or shutil.which(command[0]) is None:
        return None
    if sys.platform == "darwin":
        # Without developer tools `cc` would only open a dialog.
        if subprocess.run(["xcode-select", "-p"], capture_output=True).returncode:
            return None
    for flags in ((*_FLAGS, _FOR_THIS_PROCESSOR), _FLAGS):
        with tempfile.TemporaryDirectory() as folder:
            try:
                whole = (*command, *flags)
                _run(whole, "void program(void) {}\n", Path(folder) / "program.so")
                return whole
            except (OSError, subprocess.CalledProcessError):
                continue
    return None


def has_compiler() -> bool:
    """Whether there is a C compiler that makes programs for this processor."""
    return _command() is not None


@final
class ProcessorKernel:
    """A program that makes all fits one after the other. Several threads of Python may
    run it at the same time."""

    def __init__(self, source: ProgramSource):
        self.words = max(source.words, 1)
        self._library = _loaded(source.text)

    def run(
        self,
        arrays: Sequence[np.ndarray],
        _owners: Sequence[str],
        set_of: np.ndarray,
        outputs: Sequence[tuple[int, Any]],
    ) -> list[np.ndarray]:
        fits, memory = len(set_of), np.empty(self.words)
        found = [np.empty((fits, size), dtype) for size, dtype in outputs]
        # Rows without a stride are the same memory: one row for all.
        rows = [np.ascontiguousarray(a[:1] if a.strides[0] == 0 else a) for a in arrays]
        arguments: list[Any] = [ctypes.c_longlong(fits)]
        arguments += [ctypes.c_void_p(a.ctypes.data) for a in (set_of, memory)]
        for array in (*rows, *found):
            distance = array[0].size if len(array) > 1 else 0
            arguments.append(ctypes.c_void_p(array.ctypes.data))
            arguments += [ctypes.c_longlong(1), ctypes.c_longlong(distance)]
        self._library.program(*arguments)
        return found


def _loaded(text: str) -> ctypes.CDLL:
    """Load the compiled program, made again if the kept one cannot be loaded."""
    try:
        return ctypes.CDLL(str(_compiled(text)))
    except OSError:  # Such as one for another machine.
        try:
            return ctypes.CDLL(str(_compiled(text, anew=True)))
        except OSError as error:  # Some folders must not hold programs.
            raise UntranslatedError(f"the program cannot be loaded: {error}") from error


def _compiled(text: str, *, anew: bool = False) -> Path:
    """Return the file of the compiled program, in the folder of JAX's compiled
    programs, if there is one and nobody else can write there. It is compiled if it is
    not there yet or is damaged, or with `anew`."""
    command = _command()
    if command is None:
        raise UntranslatedError("there is no C compiler")
    kept = jax.config.jax_compilation_cache_dir  # pyright: ignore
    folder = Path(kept if kept and "://" not in kept else _temporary_folder().name)
    parts = "\n".join([text, *command, _processor()])
    name = f"ddefind-{hashlib.sha256(parts.encode()).hexdigest()}.so"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not _is_private(folder):
            folder = Path(_temporary_folder().name)
        program = folder / name
        if anew or not _is_whole(program):
            _compile(command, text, program)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UntranslatedError(f"the C compiler failed: {error}") from error
    return program


def _is_whole(program: Path) -> bool:
    """Whether a program is there as it was compiled: to load a part of one would end
    the process."""
    written = _checksum_of(program)
    if not (program.exists() and written.exists()):
        return False
    is_private = _is_private(program) and _is_private(written)
    return is_private and written.read_bytes() == _checksum(program)


def _checksum_of(program: Path) -> Path:
    """Return the file beside a program that contains its checksum."""
    return program.with_suffix(".sha256")


def _checksum(program: Path) -> bytes:
    return hashlib.sha256(program.read_bytes()).hexdigest().encode()


def _is_private(path: Path) -> bool:
    """Whether a file or folder is of this user, and not everybody may write it."""
    if not hasattr(os, "geteuid"):
        return True
    found = path.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & stat.S_IWOTH


def _compile(command: Sequence[str], text: str, program: Path) -> None:
    """Compile a program, and write its checksum. Files get their names when they are
    complete, since other processes may look for them at the same time."""
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        made = Path(folder) / "program.so"
        _run(command, text, made)
        _checksum_of(made).write_bytes(_checksum(made))
        os.replace(made, program)
        os.replace(_checksum_of(made), _checksum_of(program))


def _run(command: Sequence[str], text: str, made: Path) -> None:
    """Run the compiler."""
    whole = [*command, "-o", str(made), "-", "-lm"]
    subprocess.run(whole, input=text.encode(), check=True, capture_output=True)


@cache
def _temporary_folder() -> tempfile.TemporaryDirectory:
    """Make a folder that is removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="ddefind-")


@cache
def _processor() -> str:
    """Describe the processor: programs for it may not run on another one."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    # Lines of x86 and of ARM.
    names = ("flags", "model name", "Features", "CPU")
    different = sorted({line for line in lines if line.startswith(names)})
    return "\n".join([platform.machine(), platform.processor(), *different])


# The GPU.


@cache
def has_gpu() -> bool:
    """Whether there is a GPU, and CuPy to use it, and JAX is not kept on the
    processor."""
    on_processor = os.environ.get("JAX_PLATFORMS", "") == "cpu"
    if on_processor or importlib.util.find_spec("cupy") is None:
        return False
    try:
        return _cupy().cuda.runtime.getDeviceCount() > 0
    except Exception:  # There is no driver, or not the one that CuPy needs.
        return False


def _cupy() -> Any:
    return importlib.import_module("cupy")


@final
class GpuKernel:
    """A program on the GPU."""

    def __init__(self, source: ProgramSource):
        self.words = max(source.words, 1)
        try:
            module = _cupy().RawModule(code=source.text, options=("--std=c++17",))
            self._function = module.get_function("program")
        except Exception as error:  # CuPy has many errors, for missing parts of CUDA.
            raise UntranslatedError(f"CUDA cannot compile it: {error}") from error

    def run(
        self,
        arrays: Sequence[np.ndarray],
        owners: Sequence[str],
        set_of: np.ndarray,
        outputs: Sequence[tuple[int, Any]],
    ) -> list[np.ndarray]:
        """Compute the outputs in portions for which there is memory."""
        try:
            return self._run(arrays, owners, set_of, outputs)
        except Exception as error:  # Such as no memory: other programs use it, too.
            raise UntranslatedError(f"the GPU cannot run it: {error}") from error

    def _run(self, arrays, owners, set_of, outputs) -> list[np.ndarray]:
        fits = len(set_of)
        row_bytes = sum(a[:1].nbytes for a, o in zip(arrays, owners) if o == OWN)
        row_bytes += sum(size * np.dtype(dtype).itemsize for size, dtype in outputs)
        with _stream():
            kept = [None if o == OWN else _columns(a) for a, o in zip(arrays, owners)]
            room = _FOR_FITS * _free() / max(2 * row_bytes, 1)
            portion = int(np.clip(room, _BLOCK, max(fits, _BLOCK)))
            parts = []
            for first in range(0, fits, portion):
                rows = slice(first, min(first + portion, fits))
                given = [
                    _columns(a[rows]) if k is None else k for a, k in zip(arrays, kept)
                ]
                parts.append(self._launch(given, set_of[rows], outputs))
        if len(parts) == 1:
            return parts[0]
        return [np.concatenate(each) for each in zip(*parts)]

    def _launch(self, given, set_of, outputs) -> list[np.ndarray]:
        cupy, count = _cupy(), len(set_of)
        results = [cupy.empty((size, count), dtype) for size, dtype in outputs]
        processors = cupy.cuda.Device().attributes["MultiProcessorCount"]
        room = _FOR_THREADS * _free() / (8 * self.words)
        threads = min(count, processors * _MOST_THREADS, room)
        blocks = max(int(np.ceil(threads / _BLOCK)), 1)
        memory = cupy.empty(blocks * _BLOCK * self.words)
        with_steps = [
            item
            for a in (*given, *results)
            for item in (a, np.int64(a.shape[1]), np.int64(a.shape[1] > 1))
        ]
        arguments = np.int64(count), cupy.asarray(set_of), memory, *with_steps
        self._function((blocks,), (_BLOCK,), arguments)
        return [cupy.ascontiguousarray(result.T).get() for result in results]


@contextmanager
def _stream() -> Iterator[None]:
    """Send the work of this thread to a stream of its own."""
    with _places:
        stream = _streams.pop() if _streams else _cupy().cuda.Stream(non_blocking=True)
        try:
            with stream:
                yield
        finally:
            _streams.append(stream)


def _columns(array: np.ndarray) -> Any:
    """Copy an array to the GPU, its rows as columns. Rows that are the same memory
    become a single column."""
    cupy = _cupy()
    if array.strides[0] == 0:
        array = array[:1]
    flat = cupy.asarray(array).reshape(len(array), -1)
    return cupy.ascontiguousarray(flat.T)


def _free() -> int:
    """Return the bytes of the GPU that are free, or that CuPy can use again."""
    cupy = _cupy()
    pool = cupy.get_default_memory_pool()
    return cupy.cuda.runtime.memGetInfo()[0] + pool.free_bytes()
