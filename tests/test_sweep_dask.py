"""Sweeps on a cluster of dask, whose workers are processes that were spawned."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from support.sweep_fits import arrays, made, sets
from support.sweep_kills import (
    LONG,
    PATHS,
    check_nothing_twice,
    client,
    recorded,
    swept,
    undisturbed,
    wait_until,
)

distributed = pytest.importorskip(
    "distributed", reason="needs dask: pip install 'ddefind[scale]'"
)
# A cluster that lives in a process of its own, so that clients can be killed.
CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@contextmanager
def cluster(folder):
    """The address of a scheduler with two workers."""
    script = folder / "cluster.py"
    script.write_text(CLUSTER)
    process = subprocess.Popen(
        [sys.executable, script],
        env=os.environ | {"PYTHONPATH": PATHS},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdin and process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()


def test_a_cluster(tmp_path):
    """A client of dask is an executor, and a model that is a function of a script goes
    as code."""
    journal = tmp_path / "journal"
    with cluster(tmp_path) as address:
        with distributed.Client(address, set_as_default=False) as client:
            found = swept(sets(20), journal, executor=client, folder=tmp_path / "out")
    assert arrays(found) == arrays(undisturbed(20))
    assert os.getpid() not in {each.process for each in made(journal)}
    assert len(made(journal)) == 20


@pytest.mark.slow
def test_a_killed_worker_and_a_killed_client(tmp_path):
    """Every fit is there once, as in an undisturbed sweep, and no fit that was recorded
    was made again."""
    fits, out, journal = 1000, tmp_path / "out", tmp_path / "journal"
    with cluster(tmp_path) as address:
        options = ["--executor", address, "--fits", fits, "--seconds", 0.02]
        with client(out, journal, *options) as process:
            wait_until(lambda: len(recorded(out)) >= fits // 5)
            victim = made(journal)[-1].process
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: len(recorded(out)) >= fits // 2)
            process.kill()
            process.wait()
        before = recorded(out)
        assert fits // 2 <= len(before) < fits
        began = time.time()
        with client(out, journal, *options) as process:
            _, errors = process.communicate(timeout=LONG)
            assert process.returncode == 0, errors
    after = recorded(out)
    assert sorted(after) == list(range(fits))
    assert {number: after[number] for number in before} == before
    check_nothing_twice(out, journal)
    seeds = {each.seed for each in made(journal) if each.at > began}
    assert seeds.isdisjoint(before)
    assert len({each.process for each in made(journal)}) == 3
    found = swept(sets(fits), journal, 0.02, folder=out)
    assert arrays(found) == arrays(undisturbed(fits))
