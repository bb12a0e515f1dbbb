"""Data from frames: the rules of files, without importing any library of frames."""

import numpy as np
import pandas as pd
import pytest

import ddefind as dd
from support.command import python
from support.fits import equal_data as equal, unchecked

NAN = np.nan
read = dd.Data.from_pandas


def test_columns_of_numbers():
    x, y = np.array([0.1, 1 / 3, NAN]), np.array([1, 2, 3], np.float32)
    frame = pd.DataFrame({"y": y, "t": [2, 0, 1], "x": x})
    data = read(frame, columns=["x", "y"], label="lake")
    equal(data, [0, 1, 2], [[1 / 3, 2], [NAN, 3], [0.1, 1]], ["x", "y"])
    assert data.label == "lake" and data.notes == () and data.sd is None


def test_standard_deviations_text_and_gaps():
    frame = pd.DataFrame(
        {
            "time": [0.0, 1.0],
            "site": ["a", None],
            "x": pd.array([5, None], dtype="Int64"),
            "x_sd": [0.5, NAN],
            "seen": [True, False],
        }
    )
    data = read(frame)
    equal(data, [0, 1], [5, NAN])
    np.testing.assert_array_equal(data.sd, [[0.5], [NAN]])
    assert len(data.notes) == 2 and "'site' holds text" in data.notes[0]


@pytest.mark.parametrize("dtype", [object, "Float64", "string", "category"])
def test_columns_of_other_kinds(dtype):
    column = pd.Series([1.5, None, 3.25]).astype(dtype)
    equal(
        read(pd.DataFrame({"t": [0, 1, 2], "x": column})), [0, 1, 2], [1.5, NAN, 3.25]
    )


TIMES = pd.to_datetime(["2024-02-29 06:00", "2024-03-01 18:00"])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("where", ["column", "index", "objects"])
def test_dates(unit, where):
    times = TIMES.as_unit(unit)
    frame = pd.DataFrame({"x": [1, 2]}, index=times)
    if where != "index":
        column = times if where == "column" else [t.to_pydatetime() for t in times]
        frame = pd.DataFrame({"when": pd.Series(column, dtype=None), "x": [1, 2]})
    data = read(frame, time=None if where == "index" else "when")
    equal(data, [0, 1.5], [1, 2])
    assert data.origin == "2024-02-29T06:00:00"


def test_dates_with_zones_are_compared_in_utc():
    index = pd.DatetimeIndex(["2024-03-31", "2024-04-01"], tz="Europe/Berlin")
    frame = pd.DataFrame({"x": [1, 2]}, index=index)
    data = read(frame)
    equal(data, [0, 23 / 24], [1, 2])
    assert data.origin == "2024-03-30T23:00:00+00:00"
    start = pd.Timestamp("2024-03-30T22:00Z")
    assert read(frame, start=unchecked(start)).t[0] == 1 / 24


def test_an_index_of_numbers_is_the_time():
    frame = pd.DataFrame({"x": [1, 2]}, index=pd.Index([1900, 1902], name="when"))
    for time in (None, "when"):
        data = read(frame, time=time)
        equal(data, [0, 2], [1, 2])
        assert data.origin == 1900
        assert data.notes[0] == "Times are the index of the frame."
    frame.index.name = None
    equal(read(frame), [0, 2], [1, 2])
    equal(read(pd.DataFrame({"x": [1, 2]}, index=[0.5, 2.5])), [0.5, 2.5], [1, 2])
    named = pd.RangeIndex(2, name="day")
    equal(read(pd.DataFrame({"x": [1, 2]}, index=named)), [0, 1], [1, 2])


def test_a_column_comes_before_the_index():
    frame = pd.DataFrame({"t": [0, 1], "x": [1, 2]}, index=[5.0, 6.0])
    equal(read(frame), [0, 1], [1, 2])


# Columns, or a frame, and what is said of it.
BAD = [
    ({"x": [1, 2]}, "frame: no column is called t"),  # the rows are only counted
    ({"t": [], "x": []}, "frame: there are no rows"),
    ({}, "frame: there are no rows"),
    ({"t": [0, 1], "x": [1, "two"]}, "frame, row 1, column 'x': 'two' is not a number"),
    ({"t": [0, 1], "x": [np.inf, 1]}, "frame, row 0, column 'x': 'inf' is not finite"),
    ({"t": [0, NAN], "x": [1, 2]}, "frame, row 1, column 't': the time is missing"),
    (
        {"date": [TIMES[0], pd.NaT], "x": [1, 2]},
        "frame, row 1, column 'date': the date is missing",
    ),
    (pd.DataFrame([[0, 1, 2]], columns=["t", "x", "x"]), "two columns are called 'x'"),
    (pd.DataFrame({"x": [1, 2]}, index=["a", "b"]), "no column is called t"),
    (
        pd.DataFrame({"x": [1, 2]}, index=pd.MultiIndex.from_tuples([(1, 2), (3, 4)])),
        "no column is called t",
    ),
]


@pytest.mark.parametrize("frame, message", BAD)
def test_bad_frames_are_refused(frame, message):
    with pytest.raises(dd.DataError, match=message):
        read(pd.DataFrame(frame))


@pytest.mark.parametrize("frame", [None, {"t": [0, 1]}, np.ones((2, 2)), "lake.csv"])
def test_what_is_no_frame_is_refused(frame):
    with pytest.raises(TypeError, match="`frame` must be a data frame"):
        read(frame)


class Plain:
    """The least that a frame must be: no index, columns by name."""

    def __init__(self, **columns):
        self._columns = {name: np.array(column) for name, column in columns.items()}

    @property
    def columns(self):
        return list(self._columns)

    def __getitem__(self, name):
        return self._columns[name]

    def __len__(self):
        return len(next(iter(self._columns.values())))


def test_other_frames_will_do():
    equal(read(Plain(t=[0, 1], x=[1.5, NAN])), [0, 1], [1.5, NAN])
    days = np.array(["2024-01-01", "2024-01-03"], dtype="datetime64[D]")
    data = read(Plain(date=days, x=[1, 2]))
    equal(data, [0, 2], [1, 2])
    assert data.origin == "2024-01-01"


def test_pandas_is_not_imported():
    code = (
        "import sys, ddefind as dd, numpy as np\n"
        "class F(dict):\n    columns = ['t', 'x']\n    def __len__(self): return 2\n"
        "print(dd.Data.from_pandas(F(t=np.arange(2), x=np.ones(2))))\n"
        "print('pandas' in sys.modules)"
    )
    assert python("-c", code).stdout.split()[-1] == "False"
