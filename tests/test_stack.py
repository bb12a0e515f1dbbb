"""Many data sets as arrays are what they are one by one."""

import numpy as np
import pandas as pd
import pytest

import ddefind as dd
from ddefind.paper import EXPERIMENTS
from support.fits import Options

CLEAN = EXPERIMENTS["exponential"].clean


def noisy(count, seed=0):
    noise = np.random.default_rng(seed).normal(size=(count, *CLEAN.x.shape))
    return CLEAN.x + 0.1 * noise


def same(one, other):
    assert one.names == other.names and one.label == other.label
    for name in ("t", "x", "sd"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a, b)


def test_arrays():
    x = noisy(3)
    stack = dd.Data.stack(CLEAN.t, x[..., 0], sd=0.1, names="dose", labels="abc")
    for i, label in enumerate("abc"):
        same(stack[i], dd.Data(CLEAN.t, x[i], sd=0.1, names="dose", label=label))
    assert len(stack[1:]) == 2 and stack[-1].label == "c"
    assert [data.label for data in stack[::2]] == ["a", "c"]
    order = np.array([[2, 0, 1], [0, 2, 1]])
    unsorted = dd.Data.stack(order * 1.0, [[5, 3, 4], [3, 5, 4]])
    np.testing.assert_array_equal(unsorted.t, [[0, 1, 2]] * 2)
    np.testing.assert_array_equal(unsorted.x[..., 0], [[3, 4, 5]] * 2)


def test_a_frame_with_a_column_of_ids():
    frame = pd.DataFrame(
        {
            "animal": ["b", "a", "b", "a", "b"],
            "day": [2.0, 0.0, 0.0, 1.0, 1.0],
            "prey": [3.0, 7.0, 1.0, 8.0, np.nan],
            "hunter": [0.3, 0.7, 0.1, 0.8, 0.2],
        }
    )
    stack = dd.Data.stack(frame, id="animal", time="day")
    names = ("prey", "hunter")
    b = dd.Data([0, 1, 2], [[1, 0.1], [np.nan, 0.2], [3, 0.3]], names=names, label="b")
    same(stack[0], b)
    same(stack[1], dd.Data([0, 1], [[7, 0.7], [8, 0.8]], names=names, label="a"))
    only = dd.Data.stack(frame, id="animal", time="day", columns="hunter")
    assert only.names == ("hunter",)


FRAME = pd.DataFrame({"id": list("BBBAAA"), "t": [0.0, 1, 2] * 2, "x": range(6)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": [*"BBB", None, *"AA"]}, "Row 3 of the frame has"),
        ({"t": [0, 1, np.nan, 0, 1, 2]}, r"Row 2 .* \('B'\)"),
        ({"x": [*"012", "n/a", *"12"]}, r"Row 3 .* \('A'\): 'n/a'"),
        ({"x": [0, 1, 2] + [np.nan] * 3}, r"set 1 \('A'\): `x`"),
    ],
)
def test_bad_frames_are_refused_by_row_and_id(change, message):
    with pytest.raises(dd.DataError, match=message):
        dd.Data.stack(FRAME.assign(**change), id="id")
    with pytest.raises(dd.DataError, match="The frame has no rows"):
        dd.Data.stack(FRAME[:0], id="id")


def test_ids_of_several_types():
    stack = dd.Data.stack(FRAME.assign(id=[1, 1, 1, "a", "a", "a"]), id="id")
    assert stack.labels == ("1", "a")


def test_results_have_the_ids_and_a_table_that_one_bad_set_does_not_spoil():
    t = np.linspace(0, 5, 30)
    noise = 0.01 * np.random.default_rng(0).normal(size=(5, 30))
    x = np.exp(-0.7 * t) + noise
    x[3] = 0.0  # nothing to learn k from
    frame = pd.DataFrame(
        {"id": np.repeat(list("edcba"), 30), "t": np.tile(t, 5), "x": x.ravel()}
    )
    batch = dd.fit_many(dd.equation("x' = -k * x"), dd.Data.stack(frame, id="id"))
    assert batch.to_frame()["label"].tolist() == list("edcba")
    assert batch[1:3].labels == ("d", "c")
    assert abs(float(str(batch).splitlines()[1].split()[1]) - 0.7) < 0.02


def test_a_set_of_unusual_size_is_named():
    x = np.ones((4, 5))
    x[2] = 1e260
    stack = dd.Data.stack(np.arange(5.0), x, labels="abcd")
    with pytest.raises(dd.DataError, match=r"Data set 2 \('c'\): The largest value"):
        dd.fit_many(dd.equation("x' = -k * x"), stack)


def test_single_data_sets():
    sets = [dd.Data(CLEAN.t[:n], x[:n]) for n, x in zip((101, 50, 80), noisy(3))]
    for one, other in zip(dd.Data.stack(sets), sets):
        same(one, other)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((CLEAN.t, np.ones((3, 5))), "must have the shape"),
        ((-CLEAN.t, np.ones((3, 101))), "Data set 0: Times must not be before 0"),
        (([0.0, 1.0], [[1.0, 2.0], [np.nan, np.nan]]), "Data set 1: .*all values"),
        (([0.0, 1.0], [[1.0, 2.0], [1.0, np.inf]]), r"Data set 1: .*x\[1, 0\] is inf"),
        (([[0, 1, 2], [1, -1, 2]], np.ones((2, 3))), "set 1: Times must not be befo"),
        (([[2, 1, 0], [1, 1, 1]], np.ones((2, 3))), "Data set 1: "),
        (([[2, 1, 0], [0, 1, 2]], [[1, 2, 3], [1, 2, np.inf]]), "Data set 1: .*inf"),
        (([CLEAN, 3],), "takes arrays"),
        (([CLEAN, CLEAN.with_fields(names=("y",))],), "Data set 1 has other"),
        ((pd.DataFrame({"t": [0, 1], "x": [1, 2]}),), "tells the sets apart"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        dd.Data.stack(*arguments)


@pytest.mark.parametrize("loss", [dd.SumOfSquares(), dd.Integral(nodes="solver")])
def test_descent_from_a_stack(loss):
    x, start = noisy(5), EXPERIMENTS["exponential"].start
    options: Options = dict(loss=loss, epochs=20, solver=dd.RK2())
    stacked = dd.fit_many(start, dd.Data.stack(CLEAN.t, x), **options)
    listed = dd.fit_many(start, [dd.Data(CLEAN.t, each) for each in x], **options)
    alone = dd.fit(start, dd.Data(CLEAN.t, x[3]), **options)
    np.testing.assert_array_equal(stacked.best, listed.best)
    np.testing.assert_allclose(stacked[3].losses, alone.losses, rtol=1e-10)
    same(stacked[3].data, alone.data)


@pytest.mark.slow
def test_least_squares_from_a_stack():
    model = dd.equation("x' = -k * x(t - tau)")
    stack = dd.Data.stack(CLEAN.t + 20.0, noisy(3), names="x")
    stacked = dd.fit_many(model, stack)
    listed = dd.fit_many(model, list(stack))
    np.testing.assert_array_equal(stacked.best, listed.best)
    same(stacked[1].data.with_fields(label=None), listed[1].data)
    wrong = dd.Data.stack(CLEAN.t, noisy(2), names="y")
    with pytest.raises(ValueError, match="y"):
        dd.fit_many(dd.equation("x' = -k * x(t - tau); z' = x"), wrong)


def test_too_little_memory_makes_blocks_narrower(monkeypatch):
    import jax

    from ddefind._fitting import descent_batches

    plain, widths = descent_batches.run, []

    def limited(descent, state, *others):
        widths.append(state.z.shape[-1])
        if widths[-1] > 2:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return plain(descent, state, *others)

    stack, start = dd.Data.stack(CLEAN.t, noisy(12)), EXPERIMENTS["exponential"].start
    wide = dd.fit_many(start, stack, epochs=15)
    monkeypatch.setattr(descent_batches, "run", limited)
    narrow = dd.fit_many(start, stack, epochs=15)
    assert widths[0] > 2 and widths[-1] == 2
    np.testing.assert_allclose(narrow.best, wide.best, rtol=1e-10)
