"""How soon a command starts: what it loads, what it keeps, and how it writes files."""

import gc
import os
import sys
from pathlib import Path

import pytest

import ddefind._util.jax_settings
from ddefind._cli.messages import quick_start
from ddefind._util.files import write_whole
from ddefind._util.progress import Reporter
from support.command import TEXT, VALUES, python

KEYS = ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")


@pytest.fixture
def unset(monkeypatch, tmp_path):
    """An environment that says nothing of caches, with a home of its own."""
    for key in (*KEYS, "DDEFIND_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(key, "")
        monkeypatch.delenv(key)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    return monkeypatch


def folder():
    """Where a command would keep its programs."""
    with quick_start():
        return os.environ.get(KEYS[0])


@pytest.mark.parametrize(
    "platform, variable, place",
    [
        ("linux", None, ".cache/ddefind"),
        ("linux", "XDG_CACHE_HOME", "mine/ddefind"),
        ("darwin", None, "Library/Caches/ddefind"),
        ("win32", None, "AppData/Local/ddefind"),
        ("win32", "LOCALAPPDATA", "mine/ddefind"),
    ],
)
def test_each_system_has_its_place(unset, tmp_path, platform, variable, place):
    unset.setattr(sys, "platform", platform)
    if variable:
        unset.setenv(variable, str(tmp_path / "mine"))
    assert folder() == str(tmp_path / place)
    assert (tmp_path / place).is_dir()


def test_it_can_be_elsewhere_or_off(unset, tmp_path):
    unset.setenv("DDEFIND_CACHE", str(tmp_path / "there"))
    assert folder() == str(tmp_path / "there")
    for off in ("off", "OFF", "0", "no"):
        unset.delenv(KEYS[0], raising=False)
        unset.setenv("DDEFIND_CACHE", off)
        assert folder() is None


def test_one_that_is_set_up_is_left_alone(unset, tmp_path):
    unset.setenv(KEYS[0], str(tmp_path / "mine"))
    assert folder() == str(tmp_path / "mine")
    assert KEYS[1] not in os.environ and not (tmp_path / "mine").exists()


def test_without_a_folder_there_is_no_cache(unset, tmp_path):
    (tmp_path / "file").write_text("")
    unset.setenv("DDEFIND_CACHE", str(tmp_path / "file" / "below"))
    assert folder() is None


def test_old_programs_go(unset, tmp_path):
    unset.setattr(ddefind._util.jax_settings, "_MOST_FILES", 4)
    unset.setenv("DDEFIND_CACHE", str(tmp_path))
    for age in range(5):
        path = tmp_path / f"program{age}-cache"
        path.write_text("")
        os.utime(path, (1000 - age, 1000 - age))
    (tmp_path / "notes.txt").write_text("mine")
    folder()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["notes.txt", *(f"program{age}-cache" for age in range(3))]


def test_garbage_is_collected_again_afterwards(unset):
    unset.setenv("DDEFIND_CACHE", "off")
    with pytest.raises(KeyError), quick_start():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


@pytest.mark.parametrize(
    "arguments, code",
    [
        (["--help"], 0),
        (["fit", "--help"], 0),
        ([], 0),
        (["fit", "data.csv"], 2),
        (["fit", "data.csv", "-e", TEXT, "--bounds", "K"], 2),
        (["show", "nothing"], 2),
    ],
)
def test_help_and_slips_do_not_wait_for_jax(arguments, code):
    program = (
        "import sys\nfrom ddefind._cli.main import main\ntry:\n"
        f"    main({arguments!r})\nfinally:\n"
        "    print('jax' in sys.modules, 'numpy' in sys.modules, file=sys.stderr)\n"
    )
    assert python("-c", program, code=code).stderr.splitlines()[-1] == "False False"


def test_a_second_command_compiles_nothing(tmp_path):
    """Its programs come from the cache, and give the same numbers."""
    command = ("-m", "ddefind", "simulate", "-e", TEXT, *VALUES)
    environment = {"DDEFIND_CACHE": str(tmp_path / "cache")}
    # JAX says so itself.
    environment |= {"JAX_LOG_COMPILES": "1", "JAX_EXPLAIN_CACHE_MISSES": "1"}
    outputs, missed = [], []
    for _ in range(2):
        done = python(*command, unset=KEYS, **environment)
        outputs.append(done.stdout)
        missed.append(done.stderr.lower().count("persistent compilation cache miss"))
        kept = set(os.listdir(tmp_path / "cache"))
    assert outputs[0] == outputs[1] and len(kept) > 3
    assert missed[0] > 3 and missed[1] == 0


def test_an_interruption_of_the_start_is_quiet():
    program = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from ddefind._cli.messages import quiet_interrupts\n"
        "with quiet_interrupts():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(9)\n"
    )
    ended = python("-c", program, code=130)
    assert ended.stderr == "Interrupted.\n" and ended.stdout == ""


def test_there_is_no_bar_without_a_standard_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with Reporter(None, 1, 1) as reporter:
        reporter.show("phase", 1, 1, 0.0, 1.0)
    assert reporter.bar is None


def test_the_ends_of_intervals_have_a_bar_of_their_own(capsys):
    with Reporter(True, 5, 1) as reporter:
        reporter.show("finer steps", 4, 0, 0.5, 1.5)
        reporter.show_ends(0, 8, 0.5, 1.5)
        task = reporter.bar.tasks[0]
        assert (task.completed, task.total) == (0, 8)
        reporter.show_ends(3, 10, 0.5, 1.5)
        assert (task.completed, task.total) == (3, 10)
        assert task.fields["phase"] == "intervals"
    assert "intervals" in capsys.readouterr().err


@pytest.mark.parametrize("patience, has_bar", [(60.0, False), (1e-9, True)])
def test_short_work_has_no_bar(patience, has_bar):
    with Reporter(True, 1, 1, patience=patience) as reporter:
        reporter.show_ends(1, 2, 0.5, 1.5)
    assert reporter.has_begun == has_bar


def test_names_in_another_encoding_are_written(tmp_path):
    name = b"Gr\xc3\xb6\xc3\x9fe".decode("ascii", "surrogateescape")
    write_whole(tmp_path / "fit.toml", f'data = "{name}"')
    assert (tmp_path / "fit.toml").read_text("utf-8") == 'data = "Größe"'


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "results.json"
    write_whole(file, "old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_whole(file, "new")
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["results.json"]


# BLAS has one thread inside of fits, and its own number again after them.
# In a process of its own: tests themselves run with one thread.
TWO_THREADS_INSIDE = """
import threading

import numpy  # which loads BLAS
from threadpoolctl import threadpool_info

from ddefind._util.machine import one_blas_thread


def numbers():
    return {i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"}


def longer():
    with one_blas_thread():
        entered.set()
        may_leave.wait()


entered, may_leave = threading.Event(), threading.Event()
other = threading.Thread(target=longer)
print(*numbers())
with one_blas_thread():
    other.start()
    entered.wait()
print(*numbers())
may_leave.set()
other.join()
print(*numbers())
"""


def test_the_last_of_several_threads_takes_the_limit_back():
    ended = python("-c", TWO_THREADS_INSIDE, OPENBLAS_NUM_THREADS="2")
    assert ended.stdout.split() == ["2", "1", "2"]
