"""Where programs that the C compiler made are kept, and which compiler makes them."""

import hashlib
import os
import shutil

import jax
import numpy as np
import pytest

from ddefind._programs import kernels, program
from ddefind._programs.program import Runner
from support.fake_cupy import needs_compiler

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(os.name == "nt", reason="owners and modes of files"),
]


@pytest.fixture
def cache(tmp_path):
    before = jax.config.jax_compilation_cache_dir  # pyright: ignore
    folder = tmp_path / "cache"
    folder.mkdir()
    jax.config.update("jax_compilation_cache_dir", str(folder))
    yield folder
    jax.config.update("jax_compilation_cache_dir", before)


def doubled(factor):
    return program.run_fits(
        lambda _, __, own: factor * own,
        *(None, None, np.ones(2), np.zeros(2, int), Runner.processor),
    )


def test_programs_are_kept(cache):
    assert doubled(2.5).tolist() == [2.5, 2.5]
    assert len(list(cache.glob("ddefind-*.so"))) == 1


def test_a_folder_that_everybody_may_write_is_not_used(cache):
    cache.chmod(0o777)
    assert doubled(3.5).tolist() == [3.5, 3.5]
    assert not list(cache.iterdir())


def test_a_program_that_everybody_may_write_is_made_again(cache):
    assert doubled(4.5).tolist() == [4.5, 4.5]
    (file,) = cache.glob("*.so")
    before = file.stat().st_ino
    file.chmod(0o777)
    assert doubled(np.float64(4.5)).tolist() == [4.5, 4.5]
    assert file.stat().st_ino != before and not file.stat().st_mode & 0o002


def cut_short(file):
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size // 2)


def overwritten(file):
    file.write_bytes(np.random.default_rng(0).bytes(5000))


def of_another_machine(file):
    """Whole, with its checksum, but not to be loaded here."""
    overwritten(file)
    checksum = hashlib.sha256(file.read_bytes()).hexdigest()
    file.with_suffix(".sha256").write_text(checksum)


def without_checksum(file):
    file.with_suffix(".sha256").unlink()


@pytest.mark.parametrize(
    "damaged", [cut_short, overwritten, of_another_machine, without_checksum]
)
def test_a_damaged_program_is_made_again(cache, damaged):
    """Loading half a program would end the process."""
    factor = 5.5 + len(damaged.__name__)
    assert doubled(factor).tolist() == [factor, factor]
    # A copy is damaged: this process has loaded the program itself.
    copy = shutil.copytree(cache, cache.parent / "copy")
    jax.config.update("jax_compilation_cache_dir", str(copy))
    (file,) = copy.glob("*.so")
    damaged(file)
    before = file.stat().st_ino
    assert doubled(np.float64(factor)).tolist() == [factor, factor]
    assert file.stat().st_ino != before


@pytest.mark.parametrize("given", ["gcc -pthread", "no-such-compiler", ""])
def test_the_compiler_that_the_environment_names(given, monkeypatch):
    monkeypatch.setenv("CC", given)
    kernels._command.cache_clear()
    try:
        command = kernels._command()
        assert (command or ())[:2] == tuple(given.split() * (given[:3] == "gcc"))
    finally:
        kernels._command.cache_clear()
