"""Many fits in a folder: they go on where they stopped, to the last bit, and another
sweep is refused."""

import json
import os
import shutil
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._data.data import DataStack
from ddefind._fitting.request import FitTasks
from ddefind._fitting.sweep import _width, batch_of_rows
from ddefind._sweeps.database import Database, Sweep, is_locked, opened, row_of
from ddefind._sweeps.digest import NoDigest, digest
from support.fits import as_estimate
from support.sweep_fits import FIELDS, Written, arrays, made, sets, start
from support.sweep_kills import recorded

COUNT, WIDTH = 20, 7


@pytest.fixture(autouse=True)
def three_chunks(monkeypatch):
    monkeypatch.setattr("ddefind._fitting.sweep._CHUNKS", 3)


@pytest.fixture(scope="module")
def data():
    return sets(COUNT)


@pytest.fixture(scope="module")
def undisturbed(data):
    return dd.fit_many(start(), data, optimizer=dd.LeastSquares(starts=1))


@pytest.fixture
def method(tmp_path):
    return Written(str(tmp_path / "journal"))


def sweep(folder, data, method, **options: Any) -> dd.FitBatch:
    given: dict[str, Any] = {**options}
    return dd.fit_many(start(), data, optimizer=method, folder=folder, **given)


def file_of(folder):
    return folder / "fits.sqlite"


def change(folder, statement, *values):
    with closing(sqlite3.connect(file_of(folder))) as database:
        database.execute(statement, values)
        database.commit()


def cut(folder, keep):
    """Remove the rows from a number on."""
    change(folder, "DELETE FROM fits WHERE number >= ?", keep)


def test_a_sweep_is_what_fit_many_is(tmp_path, data, method, undisturbed):
    found = sweep(tmp_path / "out", data, method)
    assert arrays(found) == arrays(undisturbed)
    assert found.notes == undisturbed.notes
    fit, plain = as_estimate(found[7]), as_estimate(undisturbed[7])
    assert fit.standard_errors == plain.standard_errors
    assert fit.noise == plain.noise and fit.data is not None
    np.testing.assert_array_equal(fit.predict().mean, plain.predict().mean)
    assert arrays(sweep(tmp_path / "out", data, method)) == arrays(undisturbed)
    assert len(made(method.journal)) == COUNT


def test_gradient_descent_and_intervals(tmp_path, data):
    options: dict[str, Any] = dict(optimizer=dd.Adam(), epochs=30)
    plain = dd.fit_many(start(), data[:5], **options)
    for _ in range(2):
        found = dd.fit_many(start(), data[:5], folder=tmp_path / "adam", **options)
        assert arrays(found) == arrays(plain)
        np.testing.assert_array_equal(found[3].losses, plain[3].losses)
    options = dict(optimizer=dd.LeastSquares(starts=1), intervals=True)
    plain = dd.fit_many(start(), data[:2], **options)
    found = dd.fit_many(start(), data[:2], folder=tmp_path / "intervals", **options)
    assert found[1].intervals == plain[1].intervals
    assert found[1].summary() == plain[1].summary() and not found.notes


@pytest.mark.parametrize("keep", [0, 1, 7, 10, 19])
def test_it_goes_on_wherever_it_stopped(tmp_path, data, method, undisturbed, keep):
    out = tmp_path / "out"
    sweep(out, data, method)
    cut(out, keep)
    kept = recorded(out)
    os.remove(method.journal)
    assert arrays(sweep(out, data, method)) == arrays(undisturbed)
    rows = recorded(out)
    assert {number: rows[number] for number in kept} == kept
    assert sorted(rows) == list(range(COUNT))
    # A chunk of which a row is missing runs as a whole.
    first = keep - keep % WIDTH
    assert {each.seed for each in made(method.journal)} == set(range(first, COUNT))


def test_a_commit_that_was_cut_off_is_taken_back(tmp_path, data, method, undisturbed):
    """As where the power failed while some pages of it were on the disk."""
    out, torn = tmp_path / "out", tmp_path / "torn"
    sweep(out, data, method)
    before = recorded(out)
    with closing(sqlite3.connect(file_of(out))) as database:
        database.execute("PRAGMA cache_size = 1")  # pages are written at once
        database.execute("UPDATE fits SET record = '{}', error = 'torn'")
        shutil.copytree(out, torn)
    assert sorted(contents(torn)) == ["fits.sqlite", "fits.sqlite-journal"]
    assert file_of(torn).read_bytes() != file_of(out).read_bytes()
    assert arrays(sweep(torn, data, method)) == arrays(undisturbed)
    assert recorded(torn) == before and len(made(method.journal)) == COUNT


def test_rows_are_plain(tmp_path, data, method):
    found = sweep(tmp_path, data, method)
    for number, row in recorded(tmp_path).items():
        record = json.loads(row["record"])
        assert list(record["estimates"].values()) == found.best[number].tolist()
        assert record["standard_errors"] == as_estimate(found[number]).standard_errors
        assert row["status"] == found.statuses[number].name
    assert not is_locked(tmp_path)


def refusal(folder, *arguments, **options):
    before = contents(folder)
    with pytest.raises(dd.ResultError) as error:
        sweep(folder, *arguments, **options)
    assert contents(folder) == before
    return str(error.value)


def contents(folder):
    files = [path for path in folder.iterdir() if path.name != "lock"]
    return {path.name: path.read_bytes() for path in files}


def test_another_sweep_is_refused(tmp_path, data, method, monkeypatch):
    out = tmp_path / "out"
    sweep(out, data, method)
    assert "12 fits" not in refusal(out, data[:12], method)
    assert "has 20 fits, but these are 12" in refusal(out, data[:12], method)
    changed = [*data[:9], data[9].with_fields(x=data[9].x + 1e-12), *data[10:]]
    assert "the data of fit 9 have changed" in refusal(out, changed, method)
    named = [each.with_fields(label="lake") for each in changed]
    assert "the data of fit 0, 'lake', have" in refusal(out, named, method)
    assert "other settings" in refusal(out, data, replace(method, seconds=0.1))
    assert "other settings" in refusal(out, data, method, seed=1)
    bounded = {"tau": dd.Parameter(lower=0.1)}
    assert "other settings" in refusal(out, data, method, parameters=bounded)
    monkeypatch.setattr("ddefind._fitting.sweep.__version__", "99.0")
    assert "begun with ddefind 0." in refusal(out, data, method)


def test_another_model_is_refused(tmp_path, data):
    first = dd.equation("x' = -k * x(t - tau)")
    options: dict[str, Any] = dict(optimizer=dd.LeastSquares(starts=1), folder=tmp_path)
    dd.fit_many(first.problem(k=0.5, b=1.0, tau=1.0), data[:2], **options)
    other = dd.equation("x' = -k * x(t - tau) ^ 2")
    with pytest.raises(
        dd.ResultError, match=r"another model, \"x' = -k \* x\(t - tau\)\""
    ):
        dd.fit_many(other.problem(k=0.5, b=1.0, tau=1.0), data[:2], **options)
    with pytest.raises(dd.ResultError, match="another model"):
        dd.fit_many(first.problem(k=0.6, b=1.0, tau=1.0), data[:2], **options)


def test_a_row_that_was_altered(tmp_path, data, method):
    found = sweep(tmp_path, data, method)
    change(tmp_path, "UPDATE fits SET fit = x'00' WHERE number = 3")
    with pytest.raises(dd.ResultError, match="fits.sqlite: the file is damaged"):
        found[3]
    assert found[4].loss == found.loss[4]
    for altered in ("record = '{'", "record = '{}'", "status = 'done'"):
        change(tmp_path, f"UPDATE fits SET {altered} WHERE number = 5")
        assert "fits.sqlite: the file is damaged" in refusal(tmp_path, data, method)
    change(tmp_path, "DELETE FROM fits WHERE number IN (3, 5)")
    assert len(sweep(tmp_path, data, method)) == COUNT
    file_of(tmp_path).unlink()
    with pytest.raises(dd.ResultError, match="fits.sqlite: it cannot be read: unable"):
        found[6]


def test_a_sweep_without_a_row_yet_is_not_another(tmp_path, data, method):
    sweep(tmp_path, data, method)
    cut(tmp_path, 0)
    assert "is of other data." in refusal(tmp_path, data[::-1], method)


@pytest.mark.parametrize("content", [b"", b"{", b"SQLite format 3\0", b"-" * 10_000])
def test_another_file_in_its_place_is_refused(tmp_path, data, method, content):
    file_of(tmp_path).write_bytes(content)
    sentence = refusal(tmp_path, data, method)
    assert "fits.sqlite: this is not a file of a sweep" in sentence or "dam" in sentence


@pytest.mark.parametrize("place", [100, 5_000, 0.3, 0.9, -1])
@pytest.mark.parametrize("is_cut", [True, False])
def test_a_torn_file_is_refused(tmp_path, data, method, place, is_cut):
    """One that was cut off at any place, or of which a page is lost."""
    sweep(tmp_path, data, method)
    whole = file_of(tmp_path).read_bytes()
    place = int(place * len(whole)) if 0 < place < 1 else place % len(whole)
    first = place - place % 4096
    lost = whole[:first] + b"\xff" * 4096 + whole[first + 4096 :]
    file_of(tmp_path).write_bytes(whole[:place] if is_cut else lost)
    assert "fits.sqlite: the file is damaged" in refusal(tmp_path, data, method)


def test_other_formats_are_refused(tmp_path, data, method):
    sweep(tmp_path, data, method)
    change(tmp_path, "PRAGMA user_version = 99")
    assert "a newer ddefind, in format 99" in refusal(tmp_path, data, method)
    for name in ("sweep.json", "fits.jsonl"):
        file_of(tmp_path).unlink(missing_ok=True)
        (tmp_path / name).write_text("")
        said = f"its {name} was written by an earlier version of ddefind"
        assert said in refusal(tmp_path, data, method)
        (tmp_path / name).unlink()


@pytest.mark.parametrize("name", ["", "fits.sqlite", "fits.sqlite-journal", "lock"])
def test_a_symbolic_link_is_refused(tmp_path, data, method, name):
    out, far = tmp_path / "out", tmp_path / "far"
    sweep(out, data, method)
    if not (out / name).exists():
        (out / name).touch()
    shutil.move(out / name, far)
    (out / name).symlink_to(far)
    before = recorded(far) if not name else far.read_bytes()
    with pytest.raises(dd.ResultError, match="this is a symbolic link"):
        sweep(out, data, method)
    assert before == (recorded(far) if not name else far.read_bytes())


def test_a_full_disk_keeps_what_was_recorded(tmp_path):
    sweep_of_many(tmp_path, 0)
    database = Database(file_of(tmp_path))
    database.write(rows(range(100)))
    assert database.connection is not None
    (pages,) = database.connection.execute("PRAGMA page_count").fetchone()
    database.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(OSError, match="the disk is full. The 100 fits that were rec"):
        database.write(rows(range(100, 200)))
    database.close()
    assert sorted(recorded(tmp_path)) == list(range(100))


def test_a_reader_does_not_stop_the_writer(tmp_path, monkeypatch):
    """It waits for one that reads, and says so of one that never ends."""
    monkeypatch.setattr("ddefind._sweeps.database._PATIENCE", 0.1)
    sweep_of_many(tmp_path, 0)
    with closing(Database(file_of(tmp_path))) as database:
        with closing(sqlite3.connect(file_of(tmp_path))) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM fits").fetchall()
            with pytest.raises(dd.ResultError, match="another program has kept it"):
                database.write(rows(range(10)))
        database.write(rows(range(10)))
    assert len(recorded(tmp_path)) == 10


def rows(numbers):
    """Rows as large as those of fits of four parameters."""
    values = dict(zip("rKtb", np.random.default_rng(0).normal(size=4)))
    first, names = list(values.values()), list(values)
    record = {"loss": 0.1, "epochs": 31, "estimates": values, "standard_errors": values}
    record |= {"first": first, "final": None, "data": "0" * 12}
    content = np.random.default_rng(1).normal(size=60)
    fit = {"content": content, "names": names, "notes": []}
    one = row_of(0, None, dd.Status.converged_step.name, record, fit=fit)
    return [one._replace(number=number) for number in numbers]


def sweep_of_many(folder, count, portion=512):
    """Write rows in portions, and return the seconds that took."""
    given = Sweep(10**6, 8, "x' = -x", "model", "data", "settings", {})
    with opened(folder, given, lambda _: "") as (database, _):
        began = time.perf_counter()
        for first in range(0, count, portion):
            database.write(rows(range(first, min(first + portion, count))))
        return time.perf_counter() - began


@pytest.mark.slow
def test_many_rows_are_written_and_read_fast(tmp_path):
    count = 100_000
    written = sweep_of_many(tmp_path, count)
    began = time.process_time()
    database = Database(file_of(tmp_path))
    tasks = FitTasks([start()], sets(1), [{}] * count, 0, None)
    batch = batch_of_rows(database, tasks, 0.0, False)
    read = time.process_time() - began
    print(f"{1e3 * written / count:.3f} ms a row written, {read:.2f} s to read all")
    assert len(batch) == len(database) == count and np.isfinite(batch.best).all()
    assert written < 0.2e-3 * count and read < 1.0


def test_a_folder_that_cannot_be_made(tmp_path, data, method):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match="`folder`.*cannot be made: there is a file"):
            sweep(folder, data, method)
    for folder in ("", 3):
        with pytest.raises(ValueError, match="`folder` must be the path of the folder"):
            sweep(folder, data, method)


def test_a_finished_sweep_need_not_be_writable(tmp_path, data, method, monkeypatch):
    whole = sweep(tmp_path / "out", data, method)
    monkeypatch.setattr("ddefind._sweeps.database._is_writable", lambda _: False)
    assert arrays(sweep(tmp_path / "out", data, method)) == arrays(whole)
    cut(tmp_path / "out", 15)
    with pytest.raises(PermissionError, match="cannot be written"):
        sweep(tmp_path / "out", data, method)


def test_an_executor_that_is_closed(data, method):
    with ThreadPoolExecutor(1) as pool:
        pass
    with pytest.raises(dd.ResultError, match="`executor` takes no tasks"):
        dd.fit_many(start(), data, optimizer=method, executor=pool)


def test_one_sweep_at_a_time(tmp_path, data, method):
    def second(now):
        with pytest.raises(dd.ResultError, match="another sweep is at work"):
            sweep(tmp_path, data, method)
        assert is_locked(tmp_path)
        seen.append(now.fits_done)

    seen = []
    sweep(tmp_path, data, method, progress=second)
    assert seen[-1] == COUNT


def test_fits_that_end_with_an_error(tmp_path, data, method, undisturbed):
    out, bad = tmp_path / "out", [*data]
    for number in (3, 11):
        bad[number] = data[number].with_fields(label="impossible")
    found = sweep(out, bad, method)
    assert [i for i, s in enumerate(found.statuses) if s is dd.Status.error] == [3, 11]
    others = [i for i in range(COUNT) if i not in (3, 11)]
    for name in FIELDS:
        whole, expected = getattr(found, name), getattr(undisturbed, name)
        np.testing.assert_array_equal(whole[others], expected[others])
    assert np.isnan(found.best[3]).all() and np.isinf(found.loss[3])
    assert "2 ended with an error, fit 3 with: These data cannot" in str(found)
    assert "nan" not in str(found) and "2 error" in str(found)
    with pytest.raises(dd.ResultError, match="no fit 3: These data"):
        found[3]
    os.remove(method.journal)
    assert arrays(sweep(out, bad, method)) == arrays(found)
    assert not made(method.journal)
    sweep(out, bad, method, retry_failed=True)
    assert sorted(each.seed for each in made(method.journal)) == [3, 11]


def test_arrays_make_no_data_sets_to_be_counted(tmp_path, data, monkeypatch):
    """Each data set of a stack is made for its digest, and for its fit."""
    made_sets = []
    stack = dd.Data.stack(data)
    plain = dd.fit_many(start(), stack, optimizer=dd.LeastSquares(starts=1))
    monkeypatch.setattr("ddefind._data.data.DataStack.__getitem__", counted(made_sets))
    assert arrays(sweep(tmp_path, stack, dd.LeastSquares(starts=1))) == arrays(plain)
    assert len(made_sets) < 2.5 * COUNT


def counted(numbers, get=DataStack.__getitem__):
    """What gets a data set of a stack, with a note of its number."""
    return lambda stack, index: numbers.append(index) or get(stack, index)


def test_only_gradient_descent_fills_an_accelerator(monkeypatch):
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    assert _width(dd.LeastSquares(), 10**6) == 8
    assert _width(dd.Adam(), 10**6) == 4096


def test_an_error_of_all_fits_is_that_of_the_call(tmp_path, data, method):
    out = tmp_path / "out"
    wrong = {"taau": dd.Fixed(1.0)}
    for folder in (out, None):
        with pytest.raises(dd.ResultError, match="No fit could be made.*'taau'"):
            sweep(
                folder, data, method, executor=None if folder else 1, parameters=wrong
            )
    assert not recorded(out)
    with pytest.raises(ValueError, match="needs the `folder`"):
        dd.fit_many(start(), data, retry_failed=True)


def rate(x, y, tau, t, r=1.0):
    return -r * scaled(y)


def scaled(y):
    return 2.0 * y


def other_scaled(y):
    return 2.5 * y


def test_functions_are_known_by_their_code(monkeypatch):
    before = digest(rate)
    assert digest(rate) == before
    monkeypatch.setitem(globals(), "scaled", other_scaled)
    assert digest(rate) != before
    one, same, other = (digest(lambda y, f=f: f * y) for f in [2.0, 2.0, 3.0])
    assert one == same != other
    assert digest(lambda y: y + 1) != digest(lambda y: y + 2)
    assert digest(lambda y: jnp.sin(y)) != digest(lambda y: jnp.cos(y))


def module_class(body):
    names = {"dd": dd, "__name__": "users_own"}
    exec(compile(body, "users_own.py", "exec"), names)
    return names["Own"]


def test_classes_are_known_by_their_methods():
    body = (
        "class Own(dd.models.AbstractModel):\n    k: float = 1.0\n"
        "    def __call__(self, x, y, tau, t):\n        return {} * self.k * y\n"
    )
    one, same, other = (module_class(body.format(n))() for n in (2, 2, 3))
    assert digest(one) == digest(same)
    assert digest(one) != digest(other)


def test_arrays_and_containers():
    assert digest(np.arange(3)) != digest(np.arange(3.0))
    assert digest(np.zeros((2, 3))) != digest(np.zeros((3, 2)))
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest([1, [2]]) != digest([[1], 2]) != digest([1, 2])
    shared = [1.0]
    assert digest([shared, shared]) == digest([[1.0], [1.0]])
    assert digest(jnp.arange(3.0)) == digest(np.arange(3.0))
    with pytest.raises(NoDigest, match="generator"):
        digest(i for i in range(3))
