"""Many fits in a folder: they go on where they stopped, to the last bit, and another
sweep is refused."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._data.stack import DataStack
from ddefind._fitting.sweep import _width
from ddefind._sweeps.digest import NoDigest, digest
from ddefind._sweeps.lock import is_locked
from ddefind._sweeps.logs import FileLog, whole_records
from ddefind._sweeps.records import body_of, record_of
from support.options import QUIET
from support.results import as_estimate
from support.sweep_fits import FIELDS, Written, arrays, made, sets, start

COUNT, WIDTH = 20, 7


@pytest.fixture(autouse=True)
def three_chunks(monkeypatch):
    monkeypatch.setattr("ddefind._fitting.sweep._CHUNKS", 3)


@pytest.fixture(scope="module")
def data():
    return sets(COUNT)


@pytest.fixture(scope="module")
def undisturbed(data):
    return dd.fit_many(start(), data, optimizer=dd.LeastSquares(starts=1), **QUIET)


@pytest.fixture
def method(tmp_path):
    return Written(str(tmp_path / "journal"))


def sweep(folder, data, method, **options: Any) -> dd.FitBatch:
    given: dict[str, Any] = {**QUIET, **options}
    return dd.fit_many(start(), data, optimizer=method, folder=folder, **given)


def log_of(folder):
    return folder / "fits.jsonl"


def cut(folder, keep):
    """Cut the log off after so many bytes."""
    with open(log_of(folder), "r+b") as file:
        file.truncate(keep)


def test_a_sweep_is_what_fit_many_is(tmp_path, data, method, undisturbed):
    found = sweep(tmp_path / "out", data, method)
    assert arrays(found) == arrays(undisturbed)
    assert found.notes == undisturbed.notes
    fit, plain = as_estimate(found[7]), as_estimate(undisturbed[7])
    assert fit.standard_errors == plain.standard_errors
    assert fit.noise == plain.noise and fit.data is not None
    np.testing.assert_array_equal(fit.predict().mean, plain.predict().mean)
    again = sweep(tmp_path / "out", data, method)
    assert arrays(again) == arrays(undisturbed)
    assert len(made(method.journal)) == COUNT


def test_gradient_descent_and_intervals(tmp_path, data):
    options: dict[str, Any] = dict(optimizer=dd.Adam(), epochs=30, **QUIET)
    plain = dd.fit_many(start(), data[:5], **options)
    for _ in range(2):
        found = dd.fit_many(start(), data[:5], folder=tmp_path / "adam", **options)
        assert arrays(found) == arrays(plain)
        np.testing.assert_array_equal(found[3].losses, plain[3].losses)
    options = dict(optimizer=dd.LeastSquares(starts=1), intervals=True, **QUIET)
    plain = dd.fit_many(start(), data[:2], **options)
    found = dd.fit_many(start(), data[:2], folder=tmp_path / "intervals", **options)
    assert found[1].intervals == plain[1].intervals
    assert found[1].summary() == plain[1].summary() and not found.notes


def test_it_goes_on_wherever_the_log_was_cut_off(tmp_path, data, method, undisturbed):
    """At any byte: the records before it are kept, and the one that was cut is not."""
    out = tmp_path / "out"
    sweep(out, data, method)
    lines = log_of(out).read_bytes().splitlines(keepends=True)
    ends = np.cumsum([len(line) for line in lines]).tolist()
    random = np.random.default_rng(0).choice(ends[-1], 3).tolist()
    # From the end on: each time, what is before the place is as it was.
    for place in sorted([0, 1, ends[0] - 1, ends[0], ends[-1] - 1, *random])[::-1]:
        cut(out, place)
        kept = numbers_in(out)
        os.remove(method.journal)
        assert arrays(sweep(out, data, method)) == arrays(undisturbed)
        numbers = numbers_in(out)
        assert numbers[: len(kept)] == kept and sorted(numbers) == list(range(COUNT))
        # The chunk of the record that was cut runs as a whole.
        first = {number - number % WIDTH for number in set(range(COUNT)) - set(kept)}
        seeds = {each.seed for each in made(method.journal)}
        assert seeds == {n for f in first for n in range(f, min(f + WIDTH, COUNT))}


def numbers_in(folder):
    """The numbers of the whole records of a log."""
    lines = log_of(folder).read_bytes().splitlines(keepends=True)
    return [json.loads(line)["number"] for line in lines if line.endswith(b"\n")]


def test_records_are_plain(tmp_path, data, method):
    found = sweep(tmp_path, data, method)
    records = [json.loads(line) for line in log_of(tmp_path).read_text().splitlines()]
    for record in records:
        row = record["number"]
        assert list(record["estimates"].values()) == found.best[row].tolist()
        assert record["standard_errors"] == as_estimate(found[row]).standard_errors
        assert record["status"] == found.statuses[row].name
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
    assert "those of fit 9 have changed" in refusal(out, changed, method)
    named = [each.with_fields(label="lake") for each in changed]
    assert "those of fit 0, 'lake', have" in refusal(out, named, method)
    assert "other settings" in refusal(out, data, replace(method, seconds=0.1))
    assert "other settings" in refusal(out, data, method, seed=1)
    bounded = {"tau": dd.Parameter(lower=0.1)}
    assert "other settings" in refusal(out, data, method, parameters=bounded)
    monkeypatch.setattr("ddefind._fitting.sweep_manifest.__version__", "99.0")
    assert "begun with ddefind 0." in refusal(out, data, method)


def test_another_model_is_refused(tmp_path, data):
    first = dd.equation("x' = -k * x(t - tau)")
    options: dict[str, Any] = dict(
        optimizer=dd.LeastSquares(starts=1), folder=tmp_path, **QUIET
    )
    dd.fit_many(first.problem(k=0.5, b=1.0, tau=1.0), data[:2], **options)
    other = dd.equation("x' = -k * x(t - tau) ^ 2")
    with pytest.raises(
        dd.ResultError, match=r"another model, \"x' = -k \* x\(t - tau\)\""
    ):
        dd.fit_many(other.problem(k=0.5, b=1.0, tau=1.0), data[:2], **options)
    with pytest.raises(dd.ResultError, match="another model"):
        dd.fit_many(first.problem(k=0.6, b=1.0, tau=1.0), data[:2], **options)


def test_an_altered_record_is_refused(tmp_path, data, method):
    sweep(tmp_path, data, method)
    lines = log_of(tmp_path).read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"epochs":', b'"epochs":1')
    log_of(tmp_path).write_bytes(b"".join(lines))
    assert "line 4: the record was altered" in refusal(tmp_path, data, method)
    log_of(tmp_path).write_bytes(b"".join(lines[:3] + lines[4:]))
    assert len(sweep(tmp_path, data, method)) == COUNT


def test_a_record_that_is_being_written_is_none_yet(tmp_path, monkeypatch):
    """Nor is a line that was half there, and of which more has come meanwhile."""
    log = FileLog(tmp_path / "fits.jsonl")
    log.append({n: body_of({"number": n, "status": "error"}) for n in range(3)}, set())
    log.close()
    content = log.path.read_bytes()
    log.path.write_bytes(content[:-9])

    def meanwhile(line):
        if not line.endswith(b"\n"):
            log.path.write_bytes(content + content[:9])
        return record_of(line)

    monkeypatch.setattr("ddefind._sweeps.logs.record_of", meanwhile)
    assert len(FileLog(log.path, is_read_only=True)) == 2
    assert [each["number"] for each, *_ in whole_records(log.path)] == [0, 1, 2]


def test_a_sweep_without_a_record_yet_is_told_from_another(tmp_path, data, method):
    sweep(tmp_path, data, method)
    log_of(tmp_path).unlink()
    assert "is of other data." in refusal(tmp_path, data[::-1], method)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": "ddefind sweep"}'])
def test_a_damaged_folder_is_refused(tmp_path, data, method, content):
    (tmp_path / "sweep.json").write_text(content)
    assert "sweep.json" in refusal(tmp_path, data, method)


def test_records_without_a_manifest_are_refused(tmp_path, data, method):
    log_of(tmp_path).write_text("")
    assert "no file sweep.json" in refusal(tmp_path, data, method)


def test_a_folder_that_cannot_be_made(tmp_path, data, method):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match="`folder`.*cannot be made: there is a file"):
            sweep(folder, data, method)


@pytest.mark.parametrize("folder", ["", 3])
def test_a_folder_that_is_no_path(folder, data, method):
    with pytest.raises(ValueError, match="`folder` must be the path of the folder"):
        sweep(folder, data, method)


def test_a_finished_sweep_need_not_be_writable(tmp_path, data, method, monkeypatch):
    whole = sweep(tmp_path / "out", data, method)
    monkeypatch.setattr("ddefind._sweeps.folder._is_writable", lambda _: False)
    assert arrays(sweep(tmp_path / "out", data, method)) == arrays(whole)
    cut(tmp_path / "out", log_of(tmp_path / "out").stat().st_size - 10)
    with pytest.raises(PermissionError, match="cannot be written"):
        sweep(tmp_path / "out", data, method)


def test_an_executor_that_is_closed(data, method):
    with ThreadPoolExecutor(1) as pool:
        pass
    with pytest.raises(dd.ResultError, match="`executor` takes no tasks"):
        dd.fit_many(start(), data, optimizer=method, executor=pool, **QUIET)


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
    plain = dd.fit_many(start(), stack, optimizer=dd.LeastSquares(starts=1), **QUIET)
    monkeypatch.setattr("ddefind._data.stack.DataStack.__getitem__", counted(made_sets))
    found = sweep(tmp_path, stack, dd.LeastSquares(starts=1))
    assert arrays(found) == arrays(plain)
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
    assert log_of(out).read_bytes() == b""
    with pytest.raises(ValueError, match="needs the `folder`"):
        dd.fit_many(start(), data, retry_failed=True)


# What a folder knows its model by


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
    factors = [2.0, 2.0, 3.0]
    one, same, other = (digest(lambda y, f=f: f * y) for f in factors)
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
