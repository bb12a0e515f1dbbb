"""A CuPy without a GPU: kernels are compiled for the processor, and one thread makes
all fits. What the GPU would compute, and how it is asked to, is the same."""

import ctypes
import subprocess
import tempfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ddefind._programs import kernels, program, program as places

needs_compiler = pytest.mark.skipif(
    not kernels.has_compiler(), reason="there is no C compiler"
)


class Array(np.ndarray):
    def get(self):
        return np.array(self)


def _array(values):
    return np.array(values).view(Array)


class RawModule:
    def __init__(self, code, options):
        assert options == ("--std=c++17",)
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "program.so"
            command = ["cc", "-x", "c", *"-O1 -shared -fPIC -w -o".split(), made, "-"]
            subprocess.run([*command, "-lm"], input=code.encode(), check=True)
            self._library = ctypes.CDLL(str(made))

    def get_function(self, name):
        function = getattr(self._library, name)

        def launch(blocks, threads, arguments):
            assert threads == (64,) and blocks[0] >= 1
            function(*map(_passed, arguments))

        return launch


def _passed(argument):
    if isinstance(argument, np.ndarray):
        assert argument.flags.c_contiguous
        return ctypes.c_void_p(argument.ctypes.data)
    assert type(argument) is np.int64
    return ctypes.c_longlong(int(argument))


def _empty(shape, dtype=float):
    """Memory is full of NaN, so that what is read before it is written shows."""
    made = np.empty(shape, dtype)
    made.fill(np.nan if made.dtype == float else 1)
    return made.view(Array)


CUPY = SimpleNamespace(
    RawModule=RawModule,
    empty=_empty,
    asarray=_array,
    ascontiguousarray=lambda a: np.ascontiguousarray(a).view(Array),
    get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: 0),
    cuda=SimpleNamespace(
        Device=lambda: SimpleNamespace(attributes={"MultiProcessorCount": 2}),
        Stream=lambda non_blocking: nullcontext(),
        memory=SimpleNamespace(OutOfMemoryError=MemoryError),
        runtime=SimpleNamespace(memGetInfo=lambda: (1 << 30, 1 << 30)),
    ),
)


@pytest.fixture
def cupy_on_host(monkeypatch):
    """Programs for a GPU run on the processor."""
    monkeypatch.setattr(kernels, "_cupy", lambda: CUPY)
    monkeypatch.setattr(program, "_programs", {})


@pytest.fixture
def many_on_gpu(cupy_on_host, monkeypatch):
    """Few fits count as many, and there seems to be a GPU. Yields the programs."""
    monkeypatch.setattr(places, "has_gpu", lambda: True)
    monkeypatch.setattr(places, "LEAST_FOR_GPU", 2)
    return program._programs
