"""Measurements: what is accepted, how it is kept, and what is refused."""

import pickle
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import ddefind as dd


def test_unsorted_input_is_sorted_with_all_that_belongs_to_it():
    data = dd.Data([2, 0, 1], [[20, 2], [0, 0], [10, 1]], sd=[[3, 6], [1, 4], [2, 5]])
    np.testing.assert_array_equal(data.t, [0, 1, 2])
    np.testing.assert_array_equal(data.x, [[0, 0], [10, 1], [20, 2]])
    np.testing.assert_array_equal(data.sd, [[1, 4], [2, 5], [3, 6]])
    assert data.T == 2.0 and len(data) == 3


@pytest.mark.parametrize(
    "convert",
    [list, tuple, np.float32, np.int64, jnp.asarray, lambda x: np.asarray(x, object)],
)
def test_any_numbers_become_float64(convert):
    data = dd.Data(convert([0, 1, 2]), convert([3, 4, 5]))
    assert data.t.dtype == data.x.dtype == np.float64
    np.testing.assert_array_equal(data.x, [[3], [4], [5]])


def test_the_users_arrays_are_copied_and_ours_are_frozen():
    t, x = np.array([0.0, 1.0]), np.array([[1.0], [2.0]])
    data = dd.Data(t, x, sd=0.5)
    t[0], x[0] = 0.5, 9.0
    np.testing.assert_array_equal(data.t, [0, 1])
    np.testing.assert_array_equal(data.x, [[1], [2]])
    assert data.sd is not None
    for array in (data.t, data.x, data.sd):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_replicates_are_averaged_where_measured():
    nan = np.nan
    times, mean = dd.Data(
        [0, 1, 1, 2, 2, 3], [[1, 1], [2, nan], [4, 5], [nan, 2], [nan, 4], [3, 3]]
    ).mean()
    np.testing.assert_array_equal(times, [0, 1, 2, 3])
    np.testing.assert_array_equal(mean, [[1, 1], [3, 5], [nan, 3], [3, 3]])


@given(hnp.arrays(float, (7, 2), elements=st.floats(-1e6, 1e6)), st.randoms())
@settings(max_examples=25, deadline=None)
def test_the_order_of_rows_does_not_matter(x, random):
    t = np.array([0.0, 0.5, 0.5, 1.0, 3.0, 3.0, 4.0])
    order = list(range(7))
    random.shuffle(order)
    shuffled, sorted_ = dd.Data(t[order], x[order]), dd.Data(t, x)
    np.testing.assert_array_equal(shuffled.t, sorted_.t)
    size = np.abs(x).max(initial=1e-300)
    np.testing.assert_allclose(
        shuffled.mean()[1], sorted_.mean()[1], rtol=0, atol=1e-15 * size
    )


@pytest.mark.parametrize(
    "quantities, sd, expected",
    [
        (2, 2.0, [[2, 2], [2, 2], [2, 2]]),
        (2, [1, 2], [[1, 2], [1, 2], [1, 2]]),
        (2, [[1], [2], [3]], [[1, 1], [2, 2], [3, 3]]),
        (1, [4, 5, 6], [[4], [5], [6]]),
    ],
)
def test_deviations_are_one_or_one_per_quantity_or_per_value(quantities, sd, expected):
    data = dd.Data([0, 1, 2], np.ones((3, quantities)), sd=sd)
    np.testing.assert_array_equal(data.sd, expected)


def test_names_and_label():
    assert dd.Data([0, 1], [1, 2]).names == ("x",)
    assert dd.Data([0, 1], np.ones((2, 2))).names == ("x[0]", "x[1]")
    data = dd.Data([0, 1], np.ones((2, 2)), names=["prey", "hunter"], label="lake")
    assert repr(data) == "Data 'lake': 2 times in [0, 1], 2 quantities (prey, hunter)"


BAD = {
    "one time": (([0.0], [1.0]), "at least two different times, but got 1"),
    "no times": (([], []), "at least two different times, but got 0"),
    "one time, twice": (([1.0, 1.0], [1.0, 2.0]), "at least two different times"),
    "times before 0": (([-0.5, 1.0], [1.0, 2.0]), "before 0.*-0.5.*t - t.min()"),
    "infinite time": (([0.0, np.inf], [1.0, 2.0]), r"t\[1\] is inf"),
    "no time": (([0.0, np.nan], [1.0, 2.0]), r"t\[1\] is nan"),
    "lengths": (([0.0, 1.0, 2.0], [1.0, 2.0]), r"one row per time.*\(3, k\).*\(2, 1\)"),
    "cube": (([0.0, 1.0], np.ones((2, 1, 1))), r"has shape \(2, 1, 1\)"),
    "table of times": (([[0.0, 1.0]], [1.0]), "`t` must be a vector"),
    "infinite data": (([0.0, 1.0], [1.0, -np.inf]), r"x\[1, 0\] is -inf"),
    # By the user's own row.
    "unsorted": (([5.0, 1.0], [[1.0, np.inf], [2.0, 3.0]]), r"x\[0, 1\] is inf"),
    "nothing measured": (
        ([0.0, 1.0], [[np.nan, np.nan], [np.nan, np.nan]]),
        "`x` holds no measurement",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_are_refused(case):
    arguments, message = BAD[case]
    with pytest.raises(dd.DataError, match=message):
        dd.Data(*arguments)


@pytest.mark.parametrize("t, x", [("ab", [1, 2]), ([0, 1], ["a", "b"]), ([0, 1], {})])
def test_what_is_no_number_is_refused(t, x):
    with pytest.raises(TypeError, match="must be an array of numbers"):
        dd.Data(t, x)


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"sd": [1, 2, 3, 4]}, r"one per quantity \(2\)"),
        *(({"sd": sd}, "positive and finite") for sd in (0.0, -1.0, np.nan)),
        *(({"names": [*names]}, "2 different names") for names in ("a", "aa", "abc")),
    ],
)
def test_bad_deviations_and_names_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        dd.Data([0, 1, 2], np.ones((3, 2)), **fields)


def test_deviations_may_be_missing_where_nothing_was_measured():
    data = dd.Data([0, 1, 2], [1, np.nan, 3], sd=[1, np.nan, 2])
    assert data.sd is not None and np.isnan(data.sd[1, 0])


def test_data_cannot_be_changed():
    data = dd.Data([0, 1], [1, 2])
    for name in ("t", "x", "sd", "names", "label", "origin", "notes", "colour"):
        with pytest.raises(AttributeError, match=name):
            setattr(data, name, None)
    with pytest.raises(AttributeError, match="cannot delete"):
        delattr(data, "x")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(data)).x, data.x)


def test_a_quantity_may_be_measured_once_or_never():
    nan = np.nan
    data = dd.Data([0, 1], [[1, nan, nan], [2, 3, nan]], names=["a", "b", "c"])
    np.testing.assert_array_equal(data.mean()[1], data.x)


def test_origin_and_notes_are_shown():
    data = dd.Data([0, 1], [1, 2], origin=1900, notes=["Look here.", "And there."])
    assert data.origin == 1900.0 and data.notes == ("Look here.", "And there.")
    assert repr(data) == "Data: 2 times in [0, 1] since 1900, 1 quantity (x)"
    assert str(data) == f"{data!r}\n  Look here.\n  And there."
    assert "since 2024-01-31," in repr(dd.Data([0, 1], [1, 2], origin="2024-01-31"))
    with pytest.raises(dd.DataError, match="`origin` must be finite"):
        dd.Data([0, 1], [1, 2], origin=np.inf)


ABOUT: Any = dict(label="lake", origin=1900, notes=["A note."])
ABOUT |= dict(names=["prey", "hunter"], sd=[[0.1, 0.2], [0.3, 0.4]])
LAKE = dd.Data([0, 1], [[1, 2], [3, 4]], **ABOUT)


def test_columns_are_ordered_by_name():
    data = LAKE.select(["hunter", "prey"])
    assert data.names == ("hunter", "prey")
    np.testing.assert_array_equal(data.x, [[2, 1], [4, 3]])
    np.testing.assert_array_equal(data.sd, [[0.2, 0.1], [0.4, 0.3]])
    assert (data.label, data.origin, data.notes) == ("lake", 1900.0, ("A note.",))


def test_what_is_not_measured_becomes_a_column():
    data = LAKE.select(("grass", "prey", "hunter"))
    np.testing.assert_array_equal(data.x, [[np.nan, 1, 2], [np.nan, 3, 4]])
    np.testing.assert_array_equal(data.sd, [[np.nan, 0.1, 0.2], [np.nan, 0.3, 0.4]])
    assert data.notes == ("A note.", "'grass' is not measured.")
    again = data.select(data.names)
    assert again.notes == data.notes and again.names == data.names


def test_a_single_column_takes_a_single_name():
    data = dd.Data([0, 1], [1, 2], names=["population"]).select("x")
    assert data.names == ("x",)
    assert data.notes == ("Column 'population' is taken for 'x'.",)
    assert dd.Data([0, 1], [1, 2]).select(["x"]).notes == ()


@pytest.mark.parametrize(
    "names, message",
    [
        (["pray", "hunter"], "'prey' .*not among.*Did you mean 'pray'.*`columns`"),
        (["x", "y"], "'prey' .*Known names: x, y"),
        (["prey"], "'hunter' .*not among what is observed"),
        (["prey", "hunter", "prey"], "3 different names"),
    ],
)
def test_columns_that_nothing_observes_are_refused(names, message):
    with pytest.raises(dd.DataError, match=message):
        LAKE.select(names)


def test_a_file_of_data(tmp_path):
    path = tmp_path / "lake.csv"
    LAKE.to_csv(path)
    expected = (
        "t,prey,hunter,prey_sd,hunter_sd\n0.0,1.0,2.0,0.1,0.2\n1.0,3.0,4.0,0.3,0.4\n"
    )
    assert path.read_text() == expected
    dd.Data([0, 1], [np.nan, 1 / 3], sd=[9, 1], names='a, "b"').to_csv(str(path))
    assert path.read_text() == (
        't,"a, ""b""","a, ""b""_sd"\n0.0,,\n1.0,0.3333333333333333,1.0\n'
    )


@pytest.mark.parametrize("name", ["t", "x_sd", "", " x", "a\nb", "a\tb"])
def test_names_that_would_not_be_read_back_are_not_written(name, tmp_path):
    with pytest.raises(dd.DataError, match="would not be read back"):
        dd.Data([0, 1], [1, 2], names=[name]).to_csv(tmp_path / "a.csv")
    assert not list(tmp_path.iterdir())
