"""Files as spreadsheets and instruments write them: units, times of day, percentages,
replicates in columns, groups in rows; and files that are made to take long."""

import time

import numpy as np
import pytest

import ddefind as dd
from support.data_sets import equal_data as equal


@pytest.fixture
def read(tmp_path):
    def read(content, **options):
        (tmp_path / "lake.csv").write_text(content)
        return dd.read_csv(tmp_path / "lake.csv", **options)

    return read


@pytest.mark.parametrize("mark", [";", ",", "\t", "|", " "])
@pytest.mark.parametrize("quote", ["", '"'])
def test_excel_names_the_separator(read, mark, quote):
    first = f"{quote}sep={mark}{quote}"
    equal(read(f"{first}\nt{mark}x\n0{mark}1.5\n1{mark}2\n"), [0, 1], [1.5, 2])


def test_the_named_separator_decides(read):
    # Without the first line, blanks and commas would both do.
    data = read("sep=;\nt;x and y\n0;1,5\n1;2,5\n")
    equal(data, [0, 1], [1.5, 2.5], ["x and y"])
    with pytest.raises(dd.DataError, match="line 1: 'sep=:' names ':'"):
        read("sep=:\nt:x\n0:1\n")


class TestUnits:
    def test_a_row_of_units(self, read):
        data = read("Time,prey,hunter\n[h],n/km2,-\n0,1,2\n1,3,4\n")
        equal(data, [0, 1], [[1, 2], [3, 4]], ["prey", "hunter"])
        assert data.axis_labels == ("Time [h]", "prey [n/km2]", "hunter")
        note = "Units are those of line 2: 'Time' [h], 'prey' [n/km2]."
        assert data.notes == (note,)

    def test_they_stay_with_their_columns(self, read):
        data = read("t,prey\nh,mg\n0,1\n1,3\n")
        assert data.select("x").axis_labels == ("time [h]", "prey [mg]")
        more = data.select(["x", "prey"])
        assert more.axis_labels == ("time [h]", "x", "prey [mg]")
        assert more.later(3).axis_labels == more.axis_labels

    def test_a_wrong_first_row_is_no_row_of_units(self, read):
        with pytest.raises(dd.DataError, match="line 2, column 't': 'O' is not a num"):
            read("t,x\nO,1\n1,2\n")

    def test_labels_are_one_for_each_axis(self):
        with pytest.raises(dd.DataError, match="`axis_labels` must be 2 texts"):
            dd.Data([0, 1], [1, 2], axis_labels=["time"])


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


class TestTimesOfDay:
    def test_they_are_hours(self, read):
        data = read("time,x\n08:30,1\n09:00:36,2\n12:30 PM,3\n")
        equal(data, [0, 0.51, 4], [1, 2, 3])
        assert data.origin == 8.5 and data.axis_labels[0] == "time [h]"
        assert "Times are hours: 08:30 is 8.5." in data.notes

    def test_durations_go_beyond_a_day(self, read):
        equal(read("time,x\n0:00,1\n23:30,2\n25:30,3\n"), [0, 23.5, 25.5], [1, 2, 3])

    def test_a_start(self, read):
        data = read("time,x\n08:30,1\n09:00,2\n", start="08:00")
        equal(data, [0.5, 1], [1, 2])

    def test_midnight_is_not_guessed(self, read):
        with pytest.raises(dd.DataError, match="line 3.*'00:10' comes after '23:50'"):
            read("time,x\n23:50,1\n00:10,2\n")

    def test_what_is_no_time(self, read):
        with pytest.raises(dd.DataError, match="line 3.*'09:60' is no time of day"):
            read("time,x\n08:30,1\n09:60,2\n")

    def test_with_a_column_of_dates(self, read):
        data = read("Date,Time,x\n1.2.2020,18:00,1\n2.2.2020,06:00,2\n")
        equal(data, [0, 0.5], [1, 2])
        assert data.origin == "2020-02-01T18:00:00"


class TestPercentages:
    def test_they_are_fractions(self, read):
        data = read("t;x\n0;5,2%\n1;\n2;7 %\n")
        equal(data, [0, 1, 2], [0.052, np.nan, 0.07])
        assert "Percentages of column 'x' are read as fractions: 5,2% is 0.052." in (
            data.notes
        )

    @pytest.mark.parametrize(
        "content, match",
        [
            ("t,x\n0,5%\n1,6\n", "line 3, column 'x': '6' has no percent sign"),
            ("t,x,x_sd\n0,5%,1\n1,6%,1\n", "'x' holds percentages, but .* 'x_sd'"),
            ("t,x\n0%,5\n1%,6\n", "line 2, column 't': '0%' is no time"),
        ],
    )
    def test_both_kinds_are_refused(self, read, content, match):
        with pytest.raises(dd.DataError, match=match):
            read(content)


class TestReplicates:
    def test_columns_that_are_called_so(self, read):
        data = read("t,rep1,rep2\n0,1,2\n1,3,\n2,5,6\n")
        equal(data, [0, 0, 1, 2, 2], [1, 2, 3, 5, 6])
        note = "Columns 'rep1' and 'rep2' are read as replicates of one quantity, 'x'."
        assert data.notes == (note,)

    def test_of_two_quantities(self, read):
        data = read(
            "t,A_rep1,A_rep2,B (rep 1),B (rep 2),C\n0,1,2,3,4,5\n1,6,7,8,9,10\n"
        )
        nan = np.nan
        x = [[1, 3, 5], [2, 4, nan], [6, 8, 10], [7, 9, nan]]
        equal(data, [0, 0, 1, 1], x, ["A", "B", "C"])

    def test_with_standard_deviations(self, read):
        data = read("t,A_rep1,A_rep2,A_sd\n0,1,2,.1\n1,6,7,.2\n")
        assert data.sd is not None and data.sd[:, 0].tolist() == [0.1, 0.1, 0.2, 0.2]
        data = read("t,A_rep1,A_rep2,A_rep1_sd,A_rep2_sd\n0,1,2,.1,.3\n1,6,7,.2,.4\n")
        assert data.sd is not None and data.sd[:, 0].tolist() == [0.1, 0.3, 0.2, 0.4]

    @pytest.mark.parametrize("names", ["rep1,y", "repA,repB", "crep1,crep2", "x1,x2"])
    def test_other_columns_are_not_pooled(self, read, names):
        assert read(f"t,{names}\n0,1,2\n1,3,4\n").names == tuple(names.split(","))

    def test_the_user_decides(self, read):
        content = "t,rep1,rep2,a\n0,1,2,3\n1,4,5,6\n"
        assert read(content, columns=["rep1", "rep2"]).names == ("rep1", "rep2")
        data = read(content, columns={"N": ["rep1", "a"], "b": "rep2"})
        equal(data, [0, 0, 1, 1], [[1, 2], [3, np.nan], [4, 5], [6, np.nan]], "Nb")
        assert data.axis_labels == ("time", "N", "rep2")

    def test_equal_names_are_refused_with_the_remedy(self, read):
        with pytest.raises(dd.DataError, match="call them 'x_rep1', 'x_rep2'"):
            read("t,x,x\n0,1,2\n1,3,4\n")


class TestGroups:
    CONTENT = "t,x,treatment\n,mg,\n0,1,control\n0,2,drug\n1,3,control\n1,4,drug\n"

    def test_they_are_not_pooled_silently(self, read):
        match = "column 'treatment' .'control', 'drug'. distinguishes rows of the same"
        with pytest.raises(dd.DataError, match=match) as caught:
            read(self.CONTENT.replace(",mg,\n", "h,mg,\n"))
        assert "`where={'treatment': 'control'}`" in str(caught.value)

    def test_one_is_read(self, read):
        content = self.CONTENT.replace(",mg,\n", "h,mg,\n")
        data = read(content, where={"treatment": "drug"})
        equal(data, [0, 1], [2, 4])
        assert data.axis_labels == ("time [h]", "x [mg]")
        with pytest.raises(dd.DataError, match="no row holds 'Drug'.*mean 'drug'"):
            read(content, where={"treatment": "Drug"})

    def test_a_number_chooses_rows(self, read):
        content = "t,x,dose\n0,1,10\n0,2,20\n1,3,10\n1,4,20\n"
        equal(read(content, where={"dose": 10.0}, columns="x"), [0, 1], [1, 3])

    def test_the_user_may_pool_them(self, read):
        data = read(self.CONTENT.replace(",mg,\n", ""), columns="x")
        equal(data, [0, 0, 1, 1], [1, 2, 3, 4])
        assert "differ in column 'treatment'" in data.notes[-1]

    def test_names_of_replicates(self, read):
        data = read("t,x,replicate\n0,1,A\n0,2,B\n1,3,A\n1,4,B\n")
        assert len(data) == 4 and "are taken as replicates" in data.notes[-1]

    def test_text_that_does_not_distinguish(self, read):
        assert len(read("t,x,site\n0,1,a\n0,2,a\n1,3,b\n1,4,b\n")) == 4


class TestLongFiles:
    def test_long_times_keep_their_digits(self, read):
        first = 1_700_000_000_000_000_000
        rows = "".join(f"{first + i * 1_000_000},{i}\n" for i in range(5))
        data = read("t,x\n" + rows)
        assert np.diff(data.t).tolist() == [1e6] * 4
        assert f"time 0 is {first} in the source" in data.notes[0]
        assert read("t,x\n" + rows, start=first - 1).t[0] == 1
        data = read("t,x\n1700000000.000000001,1\n1700000000.000000002,2\n")
        assert data.t.tolist() == [0, 1e-9]

    @pytest.mark.parametrize("line", ["," * 2_000_000, '1,"' + " #" * 200_000])
    def test_a_long_line_is_refused_at_once(self, read, line):
        with pytest.raises(dd.DataError, match="line 2: a line of"):
            read(f"t,x\n{line}\n")

    def test_comments_within_quotes_take_no_longer_than_other_lines(self, read):
        line = '1,"' + " #" * 60_000
        start = time.process_time()
        with pytest.raises(dd.DataError, match="line 3: the quotes do not match"):
            read("t,x\n0,1\n" + f"{line}\n" * 20)
        assert time.process_time() - start < 2  # it was 100 s

    @pytest.mark.parametrize("dates", [False, True])
    def test_many_rows(self, read, dates):
        n = 50_000
        times = np.arange(n)
        cells = times.astype("datetime64[m]") if dates else times
        rows = "".join(f"{t},{0.5 * i}\n" for i, t in enumerate(cells))
        start = time.process_time()
        data = read("t,x\n" + rows)
        assert time.process_time() - start < 2
        equal(data, times / 1440 if dates else times, 0.5 * times)
