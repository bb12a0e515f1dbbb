"""Files that are data: separators, marks, names, gaps, dates, and where time 0 is;
units, times of day, percentages, replicates in columns, groups in rows; and files that
are made to take long."""

import datetime
import time

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import ddefind as dd
from ddefind._cli.examples_command import logistic_data
from support.fits import equal_data as equal
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
    equal(data, [0, 0.5, 2], [[1.5, 3], [NAN, 4], [-2000, 5]], ["x", "y"])
    assert data.sd is None and data.origin == 0.0 and data.label == "lake"
    assert bool(data.notes) == (name in SPOKEN)


@pytest.mark.parametrize(
    "cell", ["", " ", "NA", "na", "N/A", "#N/A", "NaN", "nan", "null", "None", "-", "."]
)
def test_missing_cells(cell, read):
    equal(read(f"t,x\n0,1\n1,{cell}\n2,3\n"), [0, 1, 2], [1, NAN, 3])


TIME_NAMES = "t time Time TIME times date Datetime timestamp Zeit year Years month week"


@pytest.mark.parametrize(
    "name", [*TIME_NAMES.split(), "day", "Hours", "Datum", "time [h]", "t (s)"]
)
def test_names_of_the_time(name, read):
    equal(read(f"x,{name}\n5,0\n6,1\n"), [0, 1], [5, 6])


DRUGS = "t,x,treatment|0,1,control|0,2,drug|1,3,control|1,4,drug"
WITH_UNITS = DRUGS.replace("|", "|h,mg,|", 1)
# The content of a file, with a bar for the end of a line; times and values as a plain
# file would say them; and the options and, where they matter, other fields or a part of
# a note.
OPTIONS = {"time", "columns", "start", "where"}
READ = {
    # times
    "t before others": ("year,t,T|1900,0,5|1901,1,6", "t,year,T|0,1900,5|1,1901,6"),
    "time by name": (
        "hours,date,x|0,7,5|1,9,6",
        "t,x|0,5|1,6",
        {"time": "hours", "columns": "x"},
    ),
    "a row of numbers is a header if it has the name": (
        "0,1|0,5|1,6",
        "t,1|0,5|1,6",
        {"time": "0"},
    ),
    "late start": (
        "t,x|1900,5|2000,6",
        "t,x|10,5|110,6",
        {"start": 1890, "origin": 1890, "note": "1890"},
    ),
    "start 0": (
        "t,x|1900,5|2000,6",
        "t,x|1900,5|2000,6",
        {"start": 0, "origin": 0, "notes": ()},
    ),
    "early start": ("t,x|0.5,5|10,6", "t,x|0,5|9.5,6", {"start": 0.5, "origin": 0.5}),
    "dates from another start": (
        "date,x|2024-01-01,1|2024-01-03,2",
        "t,x|0.5,1|2.5,2",
        {"start": "2023-12-31T12:00", "origin": "2023-12-31T12:00:00"},
    ),
    "dates from a date": (
        "date,x|2024-01-01,1|2024-01-03,2",
        "t,x|7,1|9,2",
        {"start": datetime.date(2023, 12, 25)},
    ),
    "times of day are hours": (
        "time,x|08:30,1|09:00:36,2|12:30 PM,3",
        "t,x|0,1|0.51,2|4,3",
        {
            "origin": 8.5,
            "axis_labels": ("time [h]", "x"),
            "note": "Times are hours: 08:30 is 8.5.",
        },
    ),
    "durations go beyond a day": (
        "time,x|0:00,1|23:30,2|25:30,3",
        "t,x|0,1|23.5,2|25.5,3",
    ),
    "a start by the clock": (
        "time,x|08:30,1|09:00,2",
        "t,x|0.5,1|1,2",
        {"start": "08:00"},
    ),
    "a column of dates and one of times": (
        "Date,Time,x|1.2.2020,18:00,1|2.2.2020,06:00,2",
        "t,x|0,1|0.5,2",
        {"origin": "2020-02-01T18:00:00"},
    ),
    # columns and names
    "chosen and ordered": (
        "t,a,b,note,c|0,1,2,5 mg,3|1,4,5,no,6",
        "t,c,a|0,3,1|1,6,4",
        {"columns": ["c", "a"], "notes": ()},
    ),
    "names as they are": (
        "t,Größe (mm),OD 600,x#1|0,1,2,3|1,4,5,6",
        "t,Größe (mm),OD 600,x#1|0,1,2,3|1,4,5,6",
    ),
    "no header": (
        "0,1|1,2",
        "t,x|0,1|1,2",
        {"notes": ("The file has no header: its columns are called t, x.",)},
    ),
    "no header, three columns": ("0 1,5 NA|1 2,5 4", "t,x[0],x[1]|0,1.5,nan|1,2.5,4"),
    "no header, a comment": (
        "# a b|0,1,|1,2,7 # end",
        "t,x[1]|0,nan|1,7",
        {"columns": "x[1]"},
    ),
    "no header, dates": (
        "2024-01-01 1 2|2024-01-03 3 4",
        "t,x[0]|0,1|2,3",
        {"columns": "x[0]"},
    ),
    # A comment gives names only if it names the time.
    "other comment": ("# prey hunter|0 1|1 2", "t,x|0,1|1,2"),
    "names in a comment": ("# time y|0 1|1 2", "t,y|0,1|1,2"),
    "time in a comment": ("# when y|0 1|1 2", "t,y|0,1|1,2", {"time": "when"}),
    # Without the first line, blanks and commas would both do.
    "the named separator decides": (
        "sep=;|t;x and y|0;1,5|1;2,5",
        "t,x and y|0,1.5|1,2.5",
    ),
    "text is left out": (
        "t,site,x,who|0,north,1,|1,south,2,me",
        "t,x|0,1|1,2",
        {
            "notes": (
                "Column 'site' holds text and was left out.",
                "Column 'who' holds text and was left out.",
            )
        },
    ),
    "never measured": (
        "t,x,y|0,1,|1,2,NA",
        "t,x,y|0,1,nan|1,2,nan",
        {"notes": ("'y' is never measured.",)},
    ),
    # standard deviations
    "deviations": (
        "t,y_sd,x,x_sd,y|0,.1,1,.2,5|1,,2,.3,",
        "t,x,y|0,1,5|1,2,nan",
        {"sd": [[0.2, 0.1], [0.3, NAN]]},
    ),
    "deviations of others": (
        "t,x,x_sd,y|0,1,.2,5|1,2,.3,6",
        "t,y|0,5|1,6",
        {"columns": ["y"], "sd": None},
    ),
    # units and percentages
    "a row of units": (
        "Time,prey,hunter|[h],n/km2,-|0,1,2|1,3,4",
        "t,prey,hunter|0,1,2|1,3,4",
        {
            "axis_labels": ("Time [h]", "prey [n/km2]", "hunter"),
            "notes": ("Units are those of line 2: 'Time' [h], 'prey' [n/km2].",),
        },
    ),
    "percentages are fractions": (
        "t;x|0;5,2%|1;|2;7 %",
        "t,x|0,0.052|1,nan|2,0.07",
        {"note": "Percentages of column 'x' are read as fractions: 5,2% is 0.052."},
    ),
    # replicates
    "replicates stay rows": ("t,x|0,1|1,2|1,4|0,2", "t,x|0,1|0,2|1,2|1,4"),
    "columns of replicates": (
        "t,rep1,rep2|0,1,2|1,3,|2,5,6",
        "t,x|0,1|0,2|1,3|2,5|2,6",
        {"note": "'rep1' and 'rep2' are read as replicates of one quantity, 'x'."},
    ),
    "replicates of two quantities": (
        "t,A_rep1,A_rep2,B (rep 1),B (rep 2),C|0,1,2,3,4,5|1,6,7,8,9,10",
        "t,A,B,C|0,1,3,5|0,2,4,nan|1,6,8,10|1,7,9,nan",
    ),
    "one deviation of replicates": (
        "t,A_rep1,A_rep2,A_sd|0,1,2,.1|1,6,7,.2",
        "t,A|0,1|0,2|1,6|1,7",
        {"sd": [[0.1], [0.1], [0.2], [0.2]]},
    ),
    "deviations of replicates": (
        "t,A_rep1,A_rep2,A_rep1_sd,A_rep2_sd|0,1,2,.1,.3|1,6,7,.2,.4",
        "t,A|0,1|0,2|1,6|1,7",
        {"sd": [[0.1], [0.3], [0.2], [0.4]]},
    ),
    "replicates by themselves": (
        "t,rep1,rep2,a|0,1,2,3|1,4,5,6",
        "t,rep1,rep2|0,1,2|1,4,5",
        {"columns": ["rep1", "rep2"]},
    ),
    "replicates by choice": (
        "t,rep1,rep2,a|0,1,2,3|1,4,5,6",
        "t,N,b|0,1,2|0,3,nan|1,4,5|1,6,nan",
        {
            "columns": {"N": ["rep1", "a"], "b": "rep2"},
            "axis_labels": ("time", "N", "rep2"),
        },
    ),
    # groups
    "one group": (
        WITH_UNITS,
        "t,x|0,2|1,4",
        {"where": {"treatment": "drug"}, "axis_labels": ("time [h]", "x [mg]")},
    ),
    "a group by its number": (
        "t,x,dose|0,1,10|0,2,20|1,3,10|1,4,20",
        "t,x|0,1|1,3",
        {"where": {"dose": 10.0}, "columns": "x"},
    ),
    "pooled groups": (
        DRUGS,
        "t,x|0,1|0,2|1,3|1,4",
        {"columns": "x", "note": "differ in column 'treatment'"},
    ),
    "names of replicates": (
        "t,x,replicate|0,1,A|0,2,B|1,3,A|1,4,B",
        "t,x|0,1|0,2|1,3|1,4",
        {"note": "are taken as replicates"},
    ),
    "text that does not distinguish": (
        "t,x,site|0,1,a|0,2,a|1,3,b|1,4,b",
        "t,x|0,1|0,2|1,3|1,4",
    ),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_read(name, read):
    content, expected, *more = READ[name]
    fields = dict(*more)
    options = {key: fields.pop(key) for key in OPTIONS & fields.keys()}
    data = read(content.replace("|", "\n") + "\n", **options)
    header, *rows = expected.split("|")
    t, *x = np.array([row.split(",") for row in rows], float).T
    equal(data, t, np.stack(x, axis=1), header.split(",")[1:])
    for field, value in fields.items():
        if field == "note":
            assert any(value in note for note in data.notes)
        elif field == "sd" and value is not None:
            np.testing.assert_array_equal(data.sd, value)
        else:
            assert getattr(data, field) == value


def test_letters_of_another_code(read):
    data = read("t;größe\n0;1,5\n1;2,5\n".encode("cp1252"))
    equal(data, [0, 1], [1.5, 2.5], ["größe"])
    assert data.notes == (
        "The file is not UTF-8: its letters were read as Windows-1252.",
    )


@pytest.mark.parametrize("names", ["rep1,y", "repA,repB", "crep1,crep2", "x1,x2"])
def test_other_columns_are_not_pooled(read, names):
    assert read(f"t,{names}\n0,1,2\n1,3,4\n").names == tuple(names.split(","))


@pytest.mark.parametrize("mark", [";", ",", "\t", "|", " "])
@pytest.mark.parametrize("quote", ["", '"'])
def test_excel_names_the_separator(read, mark, quote):
    first = f"{quote}sep={mark}{quote}"
    equal(read(f"{first}\nt{mark}x\n0{mark}1.5\n1{mark}2\n"), [0, 1], [1.5, 2])


def test_units_stay_with_their_columns(read):
    data = read("t,prey\nh,mg\n0,1\n1,3\n")
    assert data.select("x").axis_labels == ("time [h]", "prey [mg]")
    more = data.select(["x", "prey"])
    assert more.axis_labels == ("time [h]", "x", "prey [mg]")
    assert more.later(3).axis_labels == more.axis_labels
    with pytest.raises(dd.DataError, match="`axis_labels` must be 2 texts"):
        dd.Data([0, 1], [1, 2], axis_labels=["time"])


def test_groups_are_not_pooled_silently(read):
    match = "column 'treatment' .'control', 'drug'. distinguishes rows of the same"
    with pytest.raises(dd.DataError, match=match) as caught:
        read(WITH_UNITS.replace("|", "\n"))
    assert "`where={'treatment': 'control'}`" in str(caught.value)
    with pytest.raises(dd.DataError, match="no row holds 'Drug'.*mean 'drug'"):
        read(WITH_UNITS.replace("|", "\n"), where={"treatment": "Drug"})


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


@pytest.mark.parametrize(
    "first, second",
    [
        ("01-Jan-2020", "15-Feb-2020"),
        ("1 january 2020", "15 february 2020"),
        ("Jan 1, 2020", "Feb 15, 2020"),
        ("2020-Jan-01", "2020-Feb-15"),
        ("1. Januar 2020", "15. Februar 2020"),
        ("01Jan2020 12:00 AM", "15Feb2020 00:00"),
    ],
)
def test_months_by_name(read, first, second):
    data = read(f'date;x\n"{first}";1\n"{second}";2\n')
    equal(data, [0, 45], [1, 2])
    assert data.origin == "2020-01-01"


def test_numbers_are_read_to_the_last_digit(read):
    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, 123456789.123456789, -0.0]
    text = "t,x\n" + "".join(f"{i},{v!r}\n" for i, v in enumerate(values))
    assert read(text).x[:, 0].tobytes() == np.array(values).tobytes()


def test_a_label(read):
    assert read("t,x\n0,1\n1,2\n", label="pond").label == "pond"


def test_long_times_keep_their_digits(read):
    first = 1_700_000_000_000_000_000
    rows = "".join(f"{first + i * 1_000_000},{i}\n" for i in range(5))
    data = read("t,x\n" + rows)
    assert np.diff(data.t).tolist() == [1e6] * 4
    assert f"time 0 is {first} in the source" in data.notes[0]
    assert read("t,x\n" + rows, start=first - 1).t[0] == 1
    data = read("t,x\n1700000000.000000001,1\n1700000000.000000002,2\n")
    assert data.t.tolist() == [0, 1e-9]


@pytest.mark.parametrize("line", ["," * 2_000_000, '1,"' + " #" * 200_000])
def test_a_long_line_is_refused_at_once(read, line):
    with pytest.raises(dd.DataError, match="line 2: a line of"):
        read(f"t,x\n{line}\n")


def test_comments_within_quotes_take_no_longer_than_other_lines(read):
    line = '1,"' + " #" * 60_000
    start = time.process_time()
    with pytest.raises(dd.DataError, match="line 3: the quotes do not match"):
        read("t,x\n0,1\n" + f"{line}\n" * 20)
    assert time.process_time() - start < 2  # it was 100 s


@pytest.mark.parametrize("dates", [False, True])
def test_many_rows(read, dates):
    times = np.arange(50_000)
    cells = times.astype("datetime64[m]") if dates else times
    rows = "".join(f"{t},{0.5 * i}\n" for i, t in enumerate(cells))
    start = time.process_time()
    data = read("t,x\n" + rows)
    assert time.process_time() - start < 2
    equal(data, times / 1440 if dates else times, 0.5 * times)


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
