"""Runs translated programs on the processor, compiled by the system's C compiler."""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, final

import jax
import numpy as np

from .jaxpr import UntranslatedError
from .translate import Source

# Whole numbers may overflow, and a place in memory holds numbers of both kinds.
_FLAGS = ("-x", "c", "-O1", "-shared", "-fPIC", "-w", "-fwrapv", "-fno-strict-aliasing")
# Not every compiler knows this one.
_FOR_THIS_PROCESSOR = "-march=native"


@cache
def _command() -> tuple[str, ...] | None:
    """The compiler with its flags; None if there is none that makes programs for this
    processor."""
    command = shlex.split(os.environ.get("CC", "cc"))
    if not command or shutil.which(command[0]) is None or _asks_to_install():
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


def _asks_to_install() -> bool:
    """Whether `cc` would only open a dialog, as on macOS without developer tools."""
    if sys.platform != "darwin":
        return False
    return subprocess.run(["xcode-select", "-p"], capture_output=True).returncode != 0


def has_compiler() -> bool:
    """Whether there is a C compiler that makes programs for this processor."""
    return _command() is not None


@final
class ProcessorKernel:
    """A program whose one thread makes all fits, one after the other. Several threads
    of Python may run it at the same time."""

    def __init__(self, source: Source):
        self.words = max(source.words, 1)
        self._library = _loaded(source.text)

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


def _loaded(text: str) -> ctypes.CDLL:
    """The compiled program, made again if the one that is kept cannot be loaded."""
    try:
        return ctypes.CDLL(str(_compiled(text)))
    except OSError:  # It is for another machine, say.
        try:
            return ctypes.CDLL(str(_compiled(text, anew=True)))
        except OSError as error:  # Some folders must not hold programs.
            raise UntranslatedError(f"the program cannot be loaded: {error}") from error


def _compiled(text: str, *, anew: bool = False) -> Path:
    """The compiled program, in the folder where JAX keeps its own ones, if it does and
    if nobody else can put programs there. It is compiled `anew` if that is asked for,
    or if it is damaged."""
    command = _command()
    if command is None:
        raise UntranslatedError("there is no C compiler")
    kept = jax.config.jax_compilation_cache_dir  # pyright: ignore
    folder = Path(kept) if kept and "://" not in kept else _temporary_folder()
    parts = "\n".join([text, *command, _processor()])
    name = f"ddefind-{hashlib.sha256(parts.encode()).hexdigest()}.so"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not _is_private(folder):
            folder = _temporary_folder()
        program = folder / name
        if anew or not _is_whole(program):
            _compile(command, text, program)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UntranslatedError(f"the C compiler failed: {error}") from error
    return program


def _is_whole(program: Path) -> bool:
    """Whether a program is there as it was compiled: loading a part of one would end
    the process."""
    written = _checksum_of(program)
    if not (program.exists() and written.exists()):
        return False
    is_private = _is_private(program) and _is_private(written)
    return is_private and written.read_bytes() == _checksum(program)


def _checksum_of(program: Path) -> Path:
    """The file beside a program that holds its checksum."""
    return program.with_suffix(".sha256")


def _checksum(program: Path) -> bytes:
    return hashlib.sha256(program.read_bytes()).hexdigest().encode()


def _is_private(path: Path) -> bool:
    """Whether a file or folder belongs to this user, and not everybody may write it."""
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
    whole = [*command, "-o", str(made), "-", "-lm"]
    subprocess.run(whole, input=text.encode(), check=True, capture_output=True)


@cache
def _temporary_folder() -> Path:
    """A folder that goes when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="ddefind-")
    _folders.append(folder)
    return Path(folder.name)


_folders: list[Any] = []


# What tells processors apart, in the words of x86 and of ARM.
_TOLD = ("flags", "model name", "Features", "CPU")


@cache
def _processor() -> str:
    """What the compiler makes programs for: they may not run on another processor."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    told = sorted({line for line in lines if line.startswith(_TOLD)})
    return "\n".join([platform.machine(), platform.processor(), *told])
