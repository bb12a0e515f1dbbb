"""A process that makes fits and can be killed, and what is left of it."""

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import ddefind as dd
from support.sweep_fits import Written, made, sets, start

TESTS = Path(__file__).parents[1]
PATHS = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), *sys.path[1:]])
LONG = 240


def undisturbed(count):
    return dd.fit_many(start(), sets(count), optimizer=dd.LeastSquares(starts=1))


def swept(data, journal, seconds=0.0, **options):
    """The fits of these data, with a journal."""
    method = Written(str(journal), seconds)
    return dd.fit_many(start(), data, optimizer=method, **options)


def begun(*words):
    """A process of Python, in a session of its own."""
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        env=os.environ | {"PYTHONPATH": PATHS},
        text=True,
        start_new_session=True,
        **pipes,
    )


@contextmanager
def client(folder, journal, *options):
    """A process that makes fits."""
    process = begun("-m", "support.sweep_client", folder, journal, *options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def recorded(folder):
    """The rows of a database by their numbers, as whoever else reads it sees them."""
    path = Path(folder) / "fits.sqlite"
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path, timeout=LONG)) as database:
        database.row_factory = sqlite3.Row
        rows = database.execute("SELECT * FROM fits ORDER BY number").fetchall()
    return {row["number"]: dict(row) for row in rows}


def wait_until(what, seconds=LONG):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def check_nothing_twice(folder, journal):
    """No fit was begun after it was recorded."""
    records = recorded(folder)
    for each in made(journal):
        assert each.at < records[each.seed]["at"]
