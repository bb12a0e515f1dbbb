"""Translated programs, compiled for the processor: what a GPU would compute."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from ddefind._gpu.translate import OWN, Source

COMPILER = shutil.which("c++") or shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")


class HostKernel:
    """A `Kernel` whose one thread makes all fits. Memory is full of NaN at first, so
    that whatever is read before it is written shows."""

    def __init__(self, source: Source):
        assert COMPILER is not None
        self.words = max(source.words, 1)
        folder = Path(tempfile.mkdtemp())
        (folder / "program.cpp").write_text(source.text)
        command = [COMPILER, "-O1", "-shared", "-fPIC", "-w", "-o", "program.so"]
        subprocess.run([*command, "program.cpp"], cwd=folder, check=True)
        self._library = ctypes.CDLL(str(folder / "program.so"))
        shutil.rmtree(folder)

    def run(self, arrays, owners, set_of, outputs):
        fits, memory = len(set_of), np.full(self.words, np.nan)
        columns = [
            np.ascontiguousarray(array.reshape(len(array), -1).T) for array in arrays
        ]
        for array, owner in zip(arrays, owners):
            assert owner != OWN or len(array) == fits
        found = [np.zeros((size, fits), dtype) for size, dtype in outputs]
        inputs = [
            item
            for column in columns
            for item in (_pointer(column), ctypes.c_longlong(column.shape[1]))
        ]
        self._library.program(
            ctypes.c_longlong(fits),
            _pointer(np.ascontiguousarray(set_of)),
            _pointer(memory),
            *inputs,
            *map(_pointer, found),
        )
        return [np.ascontiguousarray(array.T) for array in found]


def _pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


@pytest.fixture
def gpu_on_host(monkeypatch):
    """Many fits are made by translated programs, on the processor. The list of what was
    compiled."""
    from ddefind._fitting import descent_batches, many_searches
    from ddefind._gpu import program

    compiled = []

    def kernel(source):
        compiled.append(source)
        return HostKernel(source)

    monkeypatch.setattr(program, "Kernel", kernel)
    monkeypatch.setattr(program, "_programs", {})
    for module in (descent_batches, many_searches):
        monkeypatch.setattr(module, "has_gpu", lambda: True)
        monkeypatch.setattr(module, "LEAST_FOR_GPU", 2)
    return compiled
