"""Files that are data: separators, marks, names, gaps, dates, and where time 0 is."""

import datetime

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import ddefind as dd
from ddefind._cli.demo import logistic_data
from support.data_sets import equal_data as equal
from test_documentation import ROOT, run

NAN = np.nan
PAGE = ROOT / "docs" / "reference" / "data-files.md"


@pytest.fixture
def read(tmp_path):
    def read(content, **options):
        path = tmp_path / "lake.csv"
        data = content if isinstance(content, bytes) else content.encode()
        path.write_bytes(data)
        return dd.read_csv(path, **options)

    return read


# All of these are t = 0, 0.5, 2 with x = 1.5, nothing, -2000 and y = 3, 4, 5.
SAME = {
    "comma": "t,x,y\n0,1.5,3\n0.5,,4\n2,-2e3,5\n",
    "comma and blank": "t, x, y\n0, 1.5, 3\n0.5, NA, 4\n2, -2e3, 5\n",
    "semicolon": "t;x;y\n0;1.5;3\n0.5;;4\n2;-2e3;5\n",
    "decimal comma": "t;x;y\n0;1,5;3\n0,5;;4\n2;-2,0e3;5\n",
    "tab": "t\tx\ty\n0\t1.5\t3\n0.5\t\t4\n2\t-2e3\t5\n",
    "tab, decimal comma": "t\tx\ty\n0\t1,5\t3\n0,5\t\t4\n2\t-2e3\t5\n",
    "bar": "t|x|y\n0|1.5|3\n0.5||4\n2|-2e3|5\n",
    "frame of bars": "| t | x | y |\n| 0 | 1.5 | 3 |\n|.5 | | 4 |\n| 2 | -2e3 | 5 |\n",
    "blanks": "t x   y\n0 1.5 3\n0.5 NA 4\n2 -2e3 5\n",
    "aligned": "    t     x  y\n  0.0   1.5  3\n  0.5   nan  4\n  2.0 -2e+3  5\n",
    "blanks, decimal comma": "t x y\n0,0 1,5 3\n0,5 - 4\n2,0 -2e3 5\n",
    "blanks and tabs": "t \t x y\n0 1.5\t3\n0.5\t \tNA 4\n2 -2e3 5\n",
    "quotes": '"t","x","y"\n"0","1.5","3"\n"0.5","","4"\n"2","-2e3","5"\n',
    "quoted decimal comma": 't,x,y\n0,"1,5",3\n"0,5",,4\n2,"-2,0e3",5\n',
    "CRLF": "t,x,y\r\n0,1.5,3\r\n0.5,,4\r\n2,-2e3,5\r\n",
    "CR": "t,x,y\r0,1.5,3\r0.5,,4\r2,-2e3,5\r",
    "no end": "t,x,y\n0,1.5,3\n0.5,,4\n2,-2e3,5",
    "blank lines": "\n\nt,x,y\n\n0,1.5,3\n  \n0.5,,4\n2,-2e3,5\n\n\n",
    "empty rows": "t,x,y\n0,1.5,3\n,,\n0.5,,4\n2,-2e3,5\n,,\n,,\n",
    "separators at the end": "t,x,y,\n0,1.5,3,\n0.5,,4,\n2,-2e3,5,\n",
    "separators below only": "t,x,y\n0,1.5,3,\n0.5,,4,,\n2,-2e3,5\n",
    "comments": "# a lake\nt,x,y\n# one\n0,1.5,3\n0.5,,4 # gap, sorry\n2,-2e3,5\n#\n",
    "unsorted": "t,x,y\n2,-2e3,5\n0,1.5,3\n0.5,,4\n",
    "other order": "x,t,y\n1.5,0,3\n,0.5,4\n-2e3,2,5\n",
    "signs": "t,x,y\n+0,+1.5,3.\n.5,,+4e0\n2.,-2E+3,5\n",
    "true minus": "t,x,y\n0,1.5,3\n0.5,,4\n2,\N{MINUS SIGN}2e3,5\n",
    "UTF-8 with a mark": b"\xef\xbb\xbft,x,y\n0,1.5,3\n0.5,,4\n2,-2e3,5\n",
    "UTF-16": "t,x,y\n0,1.5,3\n0.5,,4\n2,-2e3,5\n".encode("utf-16"),
    "UTF-16, big end": b"\xfe\xff"
    + "t,x,y\n0,1.5,3\n.5,,4\n2,-2e3,5".encode("utf-16-be"),
    "UTF-32": "t,x,y\n0,1.5,3\n0.5,,4\n2,-2e3,5\n".encode("utf-32"),
    "row numbers": ",t,x,y\n0,0,1.5,3\n1,0.5,,4\n2,2,-2e3,5\n",
    "row numbers from 1": '"","t","x","y"\n"1",0,1.5,3\n"2",0.5,NA,4\n"3",2,-2e3,5\n',
    "names in a comment": "# t x y\n0.0 1.5 3\n0.5 nan 4\n2.0 -2e3 5\n",
    "text beside": "t,x,site,y\n0,1.5,north,3\n0.5,,,4\n2,-2e3,a 5,5\n",
}
SPOKEN = {"row numbers", "row numbers from 1", "names in a comment", "text beside"}


@pytest.mark.parametrize("name", SAME)
def test_files_that_say_the_same(name, read):
    data = read(SAME[name])
    x = [[1.5, 3], [NAN, 4], [-2000, 5]]
    equal(data, [0, 0.5, 2], x, ["x", "y"])
    assert data.sd is None and data.origin == 0.0 and data.label == "lake"
    assert bool(data.notes) == (name in SPOKEN)


@pytest.mark.parametrize(
    "cell", ["", " ", "NA", "na", "N/A", "#N/A", "NaN", "nan", "null", "None", "-", "."]
)
def test_missing_cells(cell, read):
    equal(read(f"t,x\n0,1\n1,{cell}\n2,3\n"), [0, 1, 2], [1, NAN, 3])


@pytest.mark.parametrize(
    "name",
    [
        *(
            "t",
            "time",
            "Time",
            "TIME",
            "times",
            "date",
            "Datetime",
            "timestamp",
            "Zeit",
        ),
        *(
            "year",
            "Years",
            "month",
            "week",
            "day",
            "Hours",
            "Datum",
            "time [h]",
            "t (s)",
        ),
    ],
)
def test_names_of_the_time(name, read):
    equal(read(f"x,{name}\n5,0\n6,1\n"), [0, 1], [5, 6])


def test_t_is_the_time_before_all_others(read):
    data = read("year,t,T\n1900,0,5\n1901,1,6\n")
    equal(data, [0, 1], [[1900, 5], [1901, 6]], ["year", "T"])


def test_the_time_by_name(read):
    data = read("hours,date,x\n0,7,5\n1,9,6\n", time="hours", columns="x")
    equal(data, [0, 1], [5, 6])
    # A row of numbers is a header if it has the name.
    equal(read("0,1\n0,5\n1,6\n", time="0"), [0, 1], [5, 6], ["1"])


def test_columns_are_chosen_and_ordered(read):
    text = "t,a,b,note,c\n0,1,2,5 mg,3\n1,4,5,no,6\n"
    data = read(text, columns=["c", "a"])
    equal(data, [0, 1], [[3, 1], [6, 4]], ["c", "a"])
    assert data.notes == ()


def test_names_are_kept_as_they_are(read):
    data = read("t,Größe (mm),OD 600,x#1\n0,1,2,3\n1,4,5,6\n")
    assert data.names == ("Größe (mm)", "OD 600", "x#1")


def test_letters_of_another_code(read):
    data = read("t;größe\n0;1,5\n1;2,5\n".encode("cp1252"))
    equal(data, [0, 1], [1.5, 2.5], ["größe"])
    assert data.notes == (
        "The file is not UTF-8: its letters were read as Windows-1252.",
    )


def test_a_file_without_a_header(read):
    data = read("0,1\n1,2\n")
    equal(data, [0, 1], [1, 2])
    assert data.notes == ("The file has no header: its columns are called t, x.",)
    data = read("0 1,5 NA\n1 2,5 4\n")
    equal(data, [0, 1], [[1.5, NAN], [2.5, 4]], ["x[0]", "x[1]"])
    equal(
        read("# a b\n0,1,\n1,2,7 # end\n", columns="x[1]"), [0, 1], [NAN, 7], ["x[1]"]
    )
    equal(
        read("2024-01-01 1 2\n2024-01-03 3 4\n", columns="x[0]"),
        [0, 2],
        [1, 3],
        ["x[0]"],
    )


def test_a_comment_gives_names_only_if_it_names_the_time(read):
    assert read("# prey hunter\n0 1\n1 2\n").names == ("x",)
    assert read("# time prey\n0 1\n1 2\n").names == ("prey",)
    assert read("# when prey\n0 1\n1 2\n", time="when").names == ("prey",)


def test_replicates_stay_rows(read):
    data = read("t,x\n0,1\n1,2\n1,4\n0,2\n")
    equal(data, [0, 0, 1, 1], [1, 2, 2, 4])


def test_standard_deviations(read):
    data = read("t,y_sd,x,x_sd,y\n0,.1,1,.2,5\n1,,2,.3,\n")
    equal(data, [0, 1], [[1, 5], [2, NAN]], ["x", "y"])
    np.testing.assert_array_equal(data.sd, [[0.2, 0.1], [0.3, NAN]])
    data = read("t,x,x_sd,y\n0,1,.2,5\n1,2,.3,6\n", columns=["y"])
    assert data.sd is None and data.names == ("y",)


def test_a_quantity_that_is_never_measured(read):
    data = read("t,x,y\n0,1,\n1,2,NA\n")
    equal(data, [0, 1], [[1, NAN], [2, NAN]], ["x", "y"])
    assert data.notes == ("'y' is never measured.",)


def test_text_is_left_out_and_said(read):
    data = read("t,site,x,who\n0,north,1,\n1,south,2,me\n")
    equal(data, [0, 1], [1, 2])
    assert data.notes == (
        "Column 'site' holds text and was left out.",
        "Column 'who' holds text and was left out.",
    )


SHIFTS = {
    # file's times: what is subtracted
    (0, 1, 2): 0,
    (0.5, 1, 10): 0,
    (1, 2, 3): 0,
    (1, 2): 1,
    (4, 5, 6): 4,
    (1900, 1950, 2000): 1900,
    (-3, 0, 30): -3,
    (-3, -2): -3,
    (5e-324, 1): 0,
}


@pytest.mark.parametrize("times", SHIFTS)
def test_where_time_0_is(times, read):
    origin = SHIFTS[times]
    data = read("t,x\n" + "".join(f"{t},5\n" for t in times))
    np.testing.assert_array_equal(data.t, np.array(times) - origin)
    assert data.origin == origin
    assert len(data.notes) == (times[0] != 0)
    assert (f"since {origin}," in repr(data)) == (origin != 0)
    if origin:
        (note,) = data.notes
        assert note == f"Times were shifted: time 0 is {origin} in the source."


def test_start_overrules(read):
    late, early = "t,x\n1900,5\n2000,6\n", "t,x\n0.5,5\n10,6\n"
    data = read(late, start=1890)
    equal(data, [10, 110], [5, 6])
    assert data.origin == 1890 and "1890" in data.notes[0]
    data = read(late, start=0)
    equal(data, [1900, 2000], [5, 6])
    assert data.origin == 0 and data.notes == ()
    data = read(early, start=0.5)
    equal(data, [0, 9.5], [5, 6])
    assert data.origin == 0.5


SECOND = 1 / 86400
# Days since the first, and which that is.
DATES = {
    "days": ("2024-02-28 2024-03-01", [0, 2], "2024-02-28"),
    "bars": ("2023/02/28 2023/03/01", [0, 1], "2023-02-28"),
    "points": ("31.12.2023 1.1.2024", [0, 1], "2023-12-31"),
    "compact": ("20231231 20240101", [0, 1], "2023-12-31"),
    "day first": ("01/02/2024 31/01/2024", [0, 1], "2024-01-31"),
    "month first": ("01/02/2024 01/31/2024", [0, 29], "2024-01-02"),
    "hours": ("2024-01-01T06:00 2024-01-01T18:00", [0, 0.5], "2024-01-01T06:00:00"),
    "a blank": ("1.1.2024_00:00 2.1.2024_12:00", [0, 1.5], "2024-01-01"),
    "seconds": (
        "1969-12-31T23:59:59 1970-01-01T00:00",
        [0, SECOND],
        "1969-12-31T23:59:59",
    ),
    "fractions": (
        "2024-01-01T00:00:00.25 2024-01-01T00:00:01,75",
        [0, 1.5 * SECOND],
        "2024-01-01T00:00:00.25",
    ),
    "zones": (
        "2024-03-31T00:00+01:00 2024-03-31T03:00+02:00 2024-03-31T01:00Z",
        [0, 2 / 24, 2 / 24],
        "2024-03-30T23:00:00+00:00",
    ),
    "west": (
        "2024-01-01T00:00-0530 2024-01-01T06:30_+01 2024-01-02T05:30Z",
        [0, 0, 1],
        "2024-01-01T05:30:00+00:00",
    ),
    "mixed": ("2024-01-01 2.1.2024 2024/01/04_12:00", [0, 1, 3.5], "2024-01-01"),
    "long ago": ("1600-02-29 2000-02-29", [0, 146097], "1600-02-29"),
}


@pytest.mark.parametrize("name", DATES)
def test_dates_become_days(name, read):
    cells, days, origin = DATES[name]
    dates = [cell.replace("_", " ") for cell in cells.split()]
    data = read("date;x\n" + "".join(f"{date};2,5\n" for date in dates))
    np.testing.assert_array_equal(data.t, days)
    assert data.origin == origin
    assert data.notes == (f"Times are days since {origin}.",)
    assert f"since {origin}," in repr(data)


def test_dates_from_another_start(read):
    text = "date,x\n2024-01-01,1\n2024-01-03,2\n"
    data = read(text, start="2023-12-31T12:00")
    equal(data, [0.5, 2.5], [1, 2])
    assert data.origin == "2023-12-31T12:00:00"
    equal(read(text, start=datetime.date(2023, 12, 25)), [7, 9], [1, 2])


def test_numbers_are_read_to_the_last_digit(read):
    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, 123456789.123456789, -0.0]
    text = "t,x\n" + "".join(f"{i},{v!r}\n" for i, v in enumerate(values))
    assert read(text).x[:, 0].tobytes() == np.array(values).tobytes()


def test_a_label(read):
    assert read("t,x\n0,1\n1,2\n", label="pond").label == "pond"


NAMES = st.text(
    st.characters(categories=["L", "N", "P", "S"], include_characters=" "), min_size=1
).filter(lambda name: name == name.strip() and name != "t" and not name.endswith("_sd"))
VALUES = st.floats(allow_infinity=False, allow_nan=True)


@given(
    data=st.data(),
    names=st.lists(NAMES, min_size=1, max_size=4, unique=True),
    rows=st.integers(2, 6),
    with_sd=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_what_is_written_is_read_back(data, names, rows, with_sd, tmp_path_factory):
    shape = rows, len(names)
    x = data.draw(hnp.arrays(float, shape, elements=VALUES))
    x[0, 0] = 1.5
    t = data.draw(hnp.arrays(float, rows, elements=st.floats(0, 1e300), unique=True))
    sd = None
    if with_sd:
        sd = data.draw(hnp.arrays(float, shape, elements=st.floats(1e-300, 1e300)))
        sd = np.where(np.isnan(x), NAN, sd)
    before = dd.Data(t, x, sd=sd, names=names)
    path = tmp_path_factory.getbasetemp() / "round.csv"
    before.to_csv(path)
    after = dd.read_csv(path, start=0)
    np.testing.assert_array_equal(after.t, before.t)
    np.testing.assert_array_equal(after.x, before.x)
    assert after.names == before.names and after.origin == 0.0
    if sd is None:
        assert after.sd is None
    else:
        np.testing.assert_array_equal(after.sd, before.sd)


def test_the_page_shows_what_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(PAGE, "data_files_page")
    printed = " ".join(capsys.readouterr().out.split())
    # What stands between fences; that of no language is output.
    fenced = PAGE.read_text().split("```")[1::2]
    shown = [text for text in fenced if text.startswith("\n")]
    assert len(shown) == 3
    for text in shown:
        assert " ".join(text.split()) in printed


def test_the_demo_reads_its_data():
    data = logistic_data()
    assert data.T == 10.0 and data.names == ("x",) and data.notes == ()
