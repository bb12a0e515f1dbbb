"""Sweeps whose workers and clients are killed: nothing that was recorded is lost, or
made again, and the numbers are those of a sweep that nobody disturbed."""

import os
import signal
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

import numpy as np
import pytest

import ddefind as dd
from ddefind._sweeps.executors import LocalProcesses
from support.command import python
from support.sweep_fits import arrays, made, sets, start
from support.sweep_kills import (
    LONG,
    PATHS,
    check_nothing_twice,
    client,
    is_alive,
    recorded,
    swept,
    undisturbed,
    wait_until,
)


def finished(folder, journal, count, executor=None, seconds=0.1):
    """The sweep, which goes on to its end."""
    found = swept(sets(count), journal, seconds, executor=executor, folder=folder)
    check_nothing_twice(folder, journal)
    assert arrays(found) == arrays(undisturbed(count))
    return found


def wait_until_ended(journal, process):
    """Wait for the workers of a process that was ended."""
    workers = {each.process for each in made(journal)} - {process.pid}
    wait_until(lambda: not any(map(is_alive, workers)))


@pytest.mark.parametrize("executor", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_killed_client(tmp_path, executor):
    out, journal = tmp_path / "out", tmp_path / "journal"
    options = [] if executor is None else ["--executor", executor]
    with client(out, journal, *options) as process:
        wait_until(lambda: len(recorded(out)) >= 8)
        process.kill()
        process.wait()
    before = recorded(out)
    assert 8 <= len(before) < 40
    wait_until_ended(journal, process)
    finished(out, journal, 40)
    after = recorded(out)
    assert {number: after[number] for number in before} == before


@pytest.mark.slow
def test_a_client_that_is_killed_fifty_times(tmp_path):
    """At random moments, in which it begins, fits or writes: no fit that was recorded
    is lost or made again, and only those are made twice that were not handed back."""
    out, journal = tmp_path / "out", tmp_path / "journal"
    random, fits, kills, before = np.random.default_rng(0), 3000, 50, {}
    for kill in range(kills):
        options = ["--fits", fits, "--seconds", 0.01]
        options += ["--executor", 2] if kill % 10 == 9 else []
        with client(out, journal, *options) as process:
            known = len(before)
            wait_until(lambda known=known: len(recorded(out)) > known)
            time.sleep(random.uniform(0, 0.5))
            before = recorded(out)
            process.kill()
            process.wait()
        after = recorded(out)
        assert {number: after[number] for number in before} == before
        assert len(after) < fits
        before = after
        wait_until_ended(journal, process)
    finished(out, journal, fits, seconds=0.01)
    after = recorded(out)
    assert {number: after[number] for number in before} == before
    # Two or four chunks of 8 may be under way, or on their way back, at each kill.
    assert len(made(journal)) <= fits + kills * 4 * 8


@pytest.mark.slow
def test_a_killed_worker(tmp_path):
    """It costs what it ran, and is replaced."""
    out, journal = tmp_path / "out", tmp_path / "journal"
    with client(out, journal, "--executor", 2) as process:
        wait_until(lambda: len(recorded(out)) >= 8)
        victim = made(journal)[-1].process
        os.kill(victim, signal.SIGKILL)
        _, errors = process.communicate(timeout=LONG)
        assert process.returncode == 0, errors
    lines = made(journal)
    workers = {each.process for each in lines}
    assert len(workers) == 3 and process.pid not in workers
    # Only what ran at that time was made twice: one chunk.
    seeds = [each.seed for each in lines]
    again = {seed for seed in seeds if seeds.count(seed) > 1}
    assert again and len({seed // 2 for seed in again}) == 1
    finished(out, journal, 40)
    assert len(made(journal)) == len(lines)


@pytest.mark.slow
def test_a_fit_that_ends_its_workers(tmp_path):
    """It alone has no result."""
    data = sets(6)
    data[4] = data[4].with_fields(label="deadly")
    found = swept(data, tmp_path / "journal", executor=2)
    assert found.statuses[4] is dd.Status.error
    assert found.statuses.count(dd.Status.error) == 1
    assert "fit 4 with: Its worker ended 3 times" in str(found)


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done(tmp_path):
    out, journal = tmp_path / "out", tmp_path / "journal"
    with client(out, journal, "--executor", 2) as process:
        wait_until(lambda: len(recorded(out)) >= 8)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        output, errors = process.communicate(timeout=60)
    kept = len(recorded(out))
    assert process.returncode == 0 and 8 <= kept < 40
    assert f"Interrupted: {40 - kept} fits are still to be made." in output
    assert f"{40 - kept} pending" in output and "Traceback" not in errors
    workers = {each.process for each in made(journal)}
    wait_until(lambda: not any(map(is_alive, workers)))
    finished(out, journal, 40)


def test_a_full_disk(tmp_path):
    """The database may not grow beyond some bytes. What was recorded is whole."""
    out, journal = tmp_path / "out", tmp_path / "journal"
    with client(out, journal, "--largest-file", 60_000, "--seconds", 0) as process:
        _, errors = process.communicate(timeout=LONG)
    assert process.returncode == 1
    sentence = errors.splitlines()[-1]
    kept = len(recorded(out))
    assert "fits.sqlite: it cannot be written" in sentence and kept >= 8
    assert f"The {kept} fits that were recorded are kept." in sentence
    assert "it goes on from there" in sentence
    finished(out, journal, 40, seconds=0.0)


def test_a_process_that_would_begin_while_all_end():
    """Ctrl-C came when the thread had its task, but no process yet."""
    processes = LocalProcesses(1)
    processes.is_closed = True
    with pytest.raises(BrokenProcessPool):
        processes.submit(os.getpid).result(timeout=LONG)
    assert not processes.pools
    processes.end()


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["out", None])
def test_a_pool_of_python(tmp_path, folder):
    journal = tmp_path / "journal"
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        where = folder and tmp_path / folder
        found = swept(sets(12), journal, executor=pool, folder=where)
    assert arrays(found) == arrays(undisturbed(12))
    assert {each.process for each in made(journal)} != {os.getpid()}


@pytest.mark.slow
def test_a_pool_that_is_broken(tmp_path):
    data = sets(12)
    data[9] = data[9].with_fields(label="deadly")
    out = tmp_path / "out"
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(dd.ResultError, match="The executor is broken.*executor=4"):
            swept(data, tmp_path / "journal", executor=pool, folder=out)
    assert sorted(recorded(out)) == list(range(9))


class Remote:
    """An executor that fails as a far one does."""

    def __init__(self, error):
        self.error = error

    def submit(self, function, *arguments):
        future = Future()
        future.set_exception(self.error)
        return future


def test_workers_without_the_package():
    error = ModuleNotFoundError("No module named 'ddefind'")
    with pytest.raises(dd.ResultError, match="A worker cannot import what it needs"):
        dd.fit_many(start(), sets(2), executor=Remote(error))
    with pytest.raises(dd.ResultError, match="No fit could be made.*3 times.*lost"):
        dd.fit_many(start(), sets(2), executor=Remote(OSError("lost")))


@pytest.mark.parametrize("executor", ["here", 0, True, ProcessPoolExecutor])
def test_what_is_no_executor(executor):
    with pytest.raises(TypeError, match="`executor` must be a number of processes"):
        dd.fit_many(start(), sets(2), executor=executor)


def test_a_model_that_cannot_be_sent(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    problem = dd.Problem(lambda x, y, tau, t, r=1.0: -r * y, dd.Constant(1.0), tau=1.0)
    with pytest.raises(ValueError, match="cannot be sent.*lambda.*as text"):
        dd.fit_many(problem, sets(2), executor=1)


@pytest.mark.slow
def test_a_script_without_its_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import ddefind as dd\n"
        "from support.sweep_fits import sets, start\n"
        "dd.fit_many(start(), sets(2), executor=1)\n"
    )
    last = python(script, code=1, PYTHONPATH=PATHS).stderr.splitlines()[-1]
    assert 'needs the line `if __name__ == "__main__":`' in last
