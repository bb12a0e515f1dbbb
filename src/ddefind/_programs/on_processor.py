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
from .translate import ProgramSource

# Whole numbers may overflow, and a place in memory holds numbers of both kinds.
_FLAGS = ("-x", "c", "-O1", "-shared", "-fPIC", "-w", "-fwrapv", "-fno-strict-aliasing")
# A flag that not every compiler has.
_FOR_THIS_PROCESSOR = "-march=native"


@cache
def _command() -> tuple[str, ...] | None:
    """Return the compiler with its flags, None if there is none for this processor."""
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
    tools = ["xcode-select", "-p"]
    return sys.platform == "darwin" and bool(
        subprocess.run(tools, capture_output=True).returncode
    )


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
        """Compute the outputs, [fits, size] for each (size, type) of `outputs`."""
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
def _temporary_folder() -> Path:
    """Make a folder that is removed when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="ddefind-")
    _folders.append(folder)
    return Path(folder.name)


_folders: list[Any] = []


@cache
def _processor() -> str:
    """Describe the processor: programs for it may not run on another one."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    # Lines of x86 and of ARM.
    names = ("flags", "model name", "Features", "CPU")
    different = sorted({line for line in lines if line.startswith(names)})
    return "\n".join([platform.machine(), platform.processor(), *different])
