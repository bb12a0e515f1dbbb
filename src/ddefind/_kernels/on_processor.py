"""Runs translated programs on the processor, compiled by the system's C compiler."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, final

import jax
import numpy as np

from .jaxpr import UntranslatedError
from .translate import Source

_FLAGS = ("-x", "c", "-O1", "-march=native", "-shared", "-fPIC", "-w")


@cache
def _compiler() -> str | None:
    return shutil.which(os.environ.get("CC", "cc"))


@cache
def has_compiler() -> bool:
    """Whether there is a C compiler that makes programs for this processor."""
    source = Source("void program(void) {}\n", 0)
    try:
        ProcessorKernel(source)
    except UntranslatedError:
        return False
    return True


@final
class ProcessorKernel:
    """A program whose one thread makes all fits, one after the other. Several threads
    of Python may run it at the same time."""

    def __init__(self, source: Source):
        self.words = max(source.words, 1)
        try:
            self._library = ctypes.CDLL(str(_compiled(source.text)))
        except OSError as error:  # Some folders must not hold programs.
            raise UntranslatedError(f"the program cannot be loaded: {error}") from error

    def run(
        self,
        arrays: Sequence[np.ndarray],
        _owners: Sequence[str],
        set_of: np.ndarray,
        outputs: Sequence[tuple[int, Any]],
    ) -> list[np.ndarray]:
        """The outputs, [fits, size] for each of the (size, type) of `outputs`."""
        fits, memory = len(set_of), np.empty(self.words)
        found = [np.empty((fits, size), dtype) for size, dtype in outputs]
        rows = [
            np.ascontiguousarray(array[:1] if _is_one(array) else array)
            for array in arrays
        ]
        with_steps = [
            item
            for array in (*rows, *found)
            for item in (_pointer(array), _whole(1), _whole(_scale(array)))
        ]
        self._library.program(
            _whole(fits), _pointer(set_of), _pointer(memory), *with_steps
        )
        return found


def _is_one(array: np.ndarray) -> bool:
    """Whether all rows are one and the same in memory."""
    return array.strides[0] == 0


def _scale(rows: np.ndarray) -> int:
    """How far the rows of an array are apart; zero if there is one for all."""
    return rows[0].size if len(rows) > 1 else 0


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _whole(number: int) -> ctypes.c_longlong:
    return ctypes.c_longlong(number)


def _compiled(text: str) -> Path:
    """The compiled program, in the folder where JAX keeps its own ones, if it does."""
    kept = jax.config.jax_compilation_cache_dir  # pyright: ignore
    folder = Path(kept) if kept and "://" not in kept else _temporary_folder()
    parts = text, str(_compiler()), " ".join(_FLAGS), _processor()
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    program = folder / f"ddefind-{digest}.so"
    if not program.exists():
        _compile(text, program)
    return program


def _compile(text: str, program: Path) -> None:
    """Compile a program. It gets its name when it is complete, since other processes
    may look for it at the same time."""
    compiler = _compiler()
    if compiler is None:
        raise UntranslatedError("there is no C compiler")
    try:
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=program.parent) as folder:
            made = Path(folder) / "program.so"
            command = [compiler, *_FLAGS, "-o", str(made), "-", "-lm"]
            subprocess.run(
                command, input=text.encode(), check=True, capture_output=True
            )
            os.replace(made, program)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UntranslatedError(f"the C compiler failed: {error}") from error


@cache
def _temporary_folder() -> Path:
    """A folder that goes when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="ddefind-")
    _folders.append(folder)
    return Path(folder.name)


_folders: list[Any] = []


@cache
def _processor() -> str:
    """What the compiler makes programs for: they may not run on another processor."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    told = sorted({line for line in lines if line.startswith(("flags", "model name"))})
    return "\n".join([platform.machine(), platform.processor(), *told])
