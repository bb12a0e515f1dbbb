"""What cannot be read: one clear sentence with file, line and column, and nothing is
done."""

import os
import re

import pytest
from hypothesis import given, settings, strategies as st

import ddefind as dd
from support.fits import unchecked
from support.malformed import malformed

MALFORMED = malformed()


def refused(path, **options):
    """The message of a refusal, which must stand alone in a line, without a chain of
    other errors."""
    with pytest.raises(dd.DataError) as caught:
        dd.read_csv(path, **options)
    error, message = caught.value, str(caught.value)
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    assert message.isprintable() and len(message) < 600
    assert message.startswith(str(path))
    return message


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content, pattern = MALFORMED[name]
    (tmp_path / "lake.csv").write_bytes(content)
    message = refused("lake.csv")
    assert re.search(pattern, message), message
    assert os.listdir(tmp_path) == ["lake.csv"]


def test_other_paths_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "population.csv").write_text("t,x\n0,1\n1,2\n")
    assert "Did you mean 'population.csv'?" in refused("popluation.csv")
    assert "no such file" in refused("other")
    assert "Did you" not in refused("other")
    assert "there is no folder" in refused(tmp_path / "none" / "a.csv")
    assert "this is a folder" in refused(tmp_path)
    assert "not a regular file" in refused("/dev/null")
    assert "name too long" in refused("x" * 300)
    for path in ("a\0b", "two\nlines.csv", ""):
        with pytest.raises(dd.DataError) as caught:
            dd.read_csv(path)
        assert str(caught.value).isprintable()


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    path = tmp_path / "secret.csv"
    path.write_text("t,x\n0,1\n1,2\n")

    def deny(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", deny)
    assert refused(path).endswith(": Permission denied.")


@pytest.mark.parametrize("path", [None, 5, b"a.csv", ["a.csv"]])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(TypeError, match="`path` must be the name of a file"):
        dd.read_csv(path)


OPTIONS = {
    "no such time": ({"time": "tme"}, "no column 'tme' .`time`.*Did you mean 'time'"),
    "no such column": ({"columns": ["pray"]}, "no column 'pray'.*Did you mean 'prey'"),
    "the time": ({"columns": ["time", "prey"]}, "'time' is the time"),
    "none": ({"columns": []}, "`columns` must be different names"),
    "twice": ({"columns": ["prey", "prey"]}, "`columns` must be different names"),
    "its sd": ({"columns": ["prey", "prey_sd"]}, "'prey_sd' is the standard dev"),
    "text": ({"columns": "site"}, "line 2, column 'site': 'north' is not a number"),
    "late start": ({"start": 11}, "`start` is 11, but the first time is 10"),
    "a date": ({"start": "2024-01-01"}, "`start` must be one, but got '2024-01-01'"),
    "never": ({"start": float("nan")}, "`start` must be one, but got nan"),
    "text as time": ({"time": "site"}, "line 2, column 'site': 'north' is not a num"),
}


STARTS = {
    "a number": (5, "`start`: the times are dates, but it is 5"),
    "no date": ("soon", "`start`: 'soon' is no date"),
    "late": ("2024-01-02", "`start` is 2024-01-02, but the first time is 2024-01-01"),
    "a zone": ("2023-01-02T00:00Z", "`start`: .* has a time zone, but the dates"),
    "ambiguous": ("01/02/2023", "`start`: '01/02/2023' is ambiguous"),
}
SITES = "time,prey,prey_sd,site\n10,1,1,north\n20,2,1,south\n"
DATED = "date,x\n2024-01-01,1\n2024-01-09,2\n"
REFUSED = {name: (SITES, *case) for name, case in OPTIONS.items()}
REFUSED |= {n: (DATED, {"start": start}, text) for n, (start, text) in STARTS.items()}


@pytest.mark.parametrize("name", REFUSED)
def test_options_that_do_not_fit_are_refused(name, tmp_path):
    content, options, pattern = REFUSED[name]
    path = tmp_path / "lake.csv"
    path.write_text(content)
    assert re.search(pattern, refused(path, **options))


def test_names_are_text(tmp_path):
    path = tmp_path / "lake.csv"
    path.write_text("t,x\n0,1\n1,2\n")
    for name, value in (("time", 0), ("columns", [1])):
        with pytest.raises(TypeError, match="must be given by name"):
            dd.read_csv(path, **{name: unchecked(value)})


def data_or_error(path, content):
    path.write_bytes(content)
    try:
        data = dd.read_csv(path)
    except dd.DataError as error:
        assert str(error).isprintable()
    else:
        assert isinstance(data, dd.Data)


@given(content=st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_data_or_refused(content, tmp_path_factory):
    data_or_error(tmp_path_factory.getbasetemp() / "fuzz.csv", content)


PIECES = st.sampled_from(
    [
        *(",", ";", "\t", "|", " ", "\n", "\r\n", '"', "#", "-", ".", "NA", "inf", "é"),
        *("0", "1", "2.5", "1,5", "-3e5", "1e999", "t", "x", "y", "x_sd", "time", "T"),
        *("2024-01-01", "20240101", "1/2/2024", "31.1.2024", "T12:00", "Z", "+01:00"),
        *("t,x\n", "0,1\n", "1,2\n", "t;x\n", "0;1,5\n", "2;2,5\n", "date x\n", "\x00"),
    ]
)


@given(content=st.lists(PIECES, max_size=40).map("".join))
@settings(max_examples=1000, deadline=None)
def test_any_table_is_data_or_refused(content, tmp_path_factory):
    data_or_error(tmp_path_factory.getbasetemp() / "fuzz.csv", content.encode())
