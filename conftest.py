"""What every test runs in: names for doctests, and settings that make tests quick.

- Most of the time of a run is spent compiling. JAX keeps what it has compiled in the
  folder `.jax_cache`, from which the workers of a run and later runs take it. A test
  that looks at compiled programs themselves uses the fixture `without_cache`.
- Programs that a worker has compiled or read fill its memory, and are forgotten when
  there are too many.
- Tracing makes many objects and little garbage, so that Python looks for it seldom.
- A worker has one core, so that libraries with threads of their own use one."""

import gc
import os
import shutil
import sys
from pathlib import Path

CACHE = Path(__file__).parent / ".jax_cache"
_LARGEST_CACHE = 1 << 30  # bytes
_LARGEST_MEMORY = 3 << 30

# Before numpy, torch and JAX are imported, which read them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

import ddefind


def pytest_configure(config):
    gc.set_threshold(50_000, 20, 50)
    is_worker = hasattr(config, "workerinput")
    if not is_worker and CACHE.is_dir():
        if sum(file.stat().st_size for file in CACHE.iterdir()) > _LARGEST_CACHE:
            shutil.rmtree(CACHE)


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # modules and tests are no garbage


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_programs():
    """A worker whose memory is full of compiled programs forgets them: they are in the
    cache."""
    yield
    if _memory() > _LARGEST_MEMORY:
        jax.clear_caches()
        gc.collect()


def _memory() -> int:
    """The memory of this process in bytes; 0 where the system does not tell."""
    file = Path("/proc/self/statm")
    pages = int(file.read_text().split()[1]) if file.exists() else 0
    return pages * 4096


@pytest.fixture(autouse=True)
def close_figures():
    """Where pyplot is in use, it keeps figures until they are closed."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True)
def doctest_names(doctest_namespace):
    """Names that the examples in docstrings use without importing them."""
    doctest_namespace.update(dd=ddefind, np=np, jnp=jnp)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The test works in an empty folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def without_cache():
    """Programs are compiled here and now, and not read from a file."""
    jax.config.update("jax_enable_compilation_cache", False)
    reset_cache()
    yield
    jax.config.update("jax_enable_compilation_cache", True)
    reset_cache()
