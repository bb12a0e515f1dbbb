"""Studies in files: groups of rows, several files, inputs, doses, limits."""

import numpy as np
import pytest

import ddefind as dd

GROUPS = (
    "id,t,x,dose,u\nlow,0,1,2,5\nlow,1,2,2,6\nhigh,0,3,4,1\nhigh,2,5,,2\nhigh,3,,,3\n"
)
NONMEM = (
    "ID,TIME,DV,AMT,RATE,CMT,EVID\n1,0,.,100,0,gut,1\n1,1,5,.,.,.,0\n1,2,3,0,.,.,0\n"
    "2,0,9,200,50,gut,1\n2,1,5,.,.,.,0\n2,2,7,.,.,.,0\n"
)


@pytest.fixture
def read(tmp_path, monkeypatch):
    """A function that writes files and reads the experiments in those that are named
    first."""
    monkeypatch.chdir(tmp_path)

    def write_and_read(*paths, files, **arguments):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        return dd.read_study(paths, **arguments)

    return write_and_read


def test_a_column_names_the_experiment(read):
    low, high = read(
        "a.csv", files={"a.csv": GROUPS}, group="id", values=("dose",), inputs=("u",)
    )
    assert (low.data.label, high.data.label) == ("low", "high")
    assert low.data.names == high.data.names == ("x",)
    assert high.data.t.tolist() == [0, 2] and high.data.x[:, 0].tolist() == [3, 5]
    assert (low.values, high.values) == ({"dose": 2}, {"dose": 4})
    # The last row holds an input, but no measurement.
    series = high.inputs["u"]
    assert series.t.tolist() == [0, 2, 3] and series.values.tolist() == [1, 2, 3]


def test_each_file_is_an_experiment(read):
    files = {"b.csv": "t,x\n0,1\n1,2\n", "c.csv": "t,x,y\n0,1,3\n5,2,4\n"}
    b, c = read("b.csv", "c.csv", files=files, columns=["x", "y"])
    assert (b.data.label, b.data.names) == ("b", ("x",))
    assert (c.data.label, c.data.names) == ("c", ("x", "y"))


def test_rows_of_doses(read):
    one, two = read(
        "n.csv", files={"n.csv": NONMEM}, group="ID", doses="AMT", columns={"c": "DV"}
    )
    # Times count from the dose. The rows of doses hold no measurement.
    assert one.data.t.tolist() == two.data.t.tolist() == [1, 2]
    (dose,) = one.doses
    assert (dose.state, dose.amount, dose.time) == ("gut", 100, 0)
    assert dose.duration is None and two.doses[0].duration == 4


def test_inputs_and_doses_in_files_of_their_own(read):
    files = {
        "a.csv": "date,x\n2020-01-01,1\n2020-01-03,2\n",
        "b.csv": "date,x\n2020-02-01,1\n2020-02-03,2\n",
        "T.csv": "date,T\n2019-12-01,1\n2021-01-01,3\n",
        "doses.csv": "date,amount,every,count,experiment\n2020-01-02,D,0.5,2,a\n",
    }
    outside = {"inputs": {"u": "T.csv:T", "v": "sin(t)"}, "doses": {"x": "doses.csv"}}
    a, b = read("a.csv", "b.csv", files=files, **outside)
    assert a.inputs["u"].t.tolist() == [-31, 366]
    assert b.inputs["u"].t.tolist() == [-62, 335]
    assert a.inputs["v"] == "sin(t)"
    (dose,) = a.doses
    assert (dose.amount, dose.time, dose.every, dose.count) == ("D", 1, 0.5, 2)
    assert b.doses == ()


def test_all_experiments_have_the_same_time_zero(read):
    late = "id,t,x\na,0,1\na,10,2\nb,8,1\nb,10,2\n"
    _, b = read("a.csv", files={"a.csv": late}, group="id")
    assert b.data.t.tolist() == [8, 10]
    years = "id,t,x\na,1900,1\na,1910,2\nb,1908,1\nb,1910,2\n"
    a, b = read("a.csv", files={"a.csv": years}, group="id")
    assert a.data.t.tolist() == [0, 10] and b.data.t.tolist() == [0, 2]


WRONG = {
    "a value that changes": (
        {"values": ("u",)},
        "line 3, column 'u'.*'low' has the value 6 here, but 5.*`inputs=",
    ),
    "no such group": ({"group": "Id"}, "no column 'Id'.*Did you mean 'id'"),
    "no such input": ({"inputs": {"w": "v"}}, "no column 'v' for the input 'w'"),
    "no such file": ({"inputs": {"w": "w.csv"}}, "w.csv: there is no such file"),
    "no such dose": ({"doses": "amount"}, "'amount' is neither a column.*nor a file"),
    "no state": ({"doses": "dose"}, "which state receives.*`doses={'NAME': 'dose'}`"),
    "no value": ({"where": {"t": 3}, "inputs": ("u",)}, "has no measurement"),
    "unknown label": ({"doses": {"x": "d.csv"}}, "no experiment is called 'lo'.*'low'"),
    "other times": ({"inputs": {"w": "T.csv"}}, "the times are dates, but those"),
    "reset": ({"doses": "e.csv"}, "'3' is neither 0, a measurement, nor 1"),
    "rate and duration": ({"doses": "f.csv"}, "takes 5, but the duration is 2"),
    "number of a state": ({"doses": "g.csv"}, "'1' is not the name of a state"),
    "no interval": ({"doses": "h.csv"}, "3 doses, but no time between them"),
    "two inputs": ({"inputs": {"w": "i.csv"}}, "input is 2 here, but 1 at the same"),
}
FILES = {
    "a.csv": GROUPS,
    "d.csv": "t,amount,experiment\n1,5,lo\n",
    "T.csv": "t,w\n2020-01-01,1\n2020-01-02,1\n",
    "e.csv": "t,amount,state,EVID\n1,5,x,3\n",
    "f.csv": "t,amount,state,rate,duration\n1,5,x,1,2\n",
    "g.csv": "t,amount,CMT\n1,5,1\n",
    "h.csv": "t,amount,state,count\n1,5,x,3\n",
    "i.csv": "t,w\n0,1\n0,2\n3,2\n",
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_agree_is_said(read, case):
    arguments, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        read("a.csv", files=FILES, **{"group": "id", **arguments})


def test_files_that_do_not_agree(read):
    spelling = {"b.csv": "t,Prey\n0,1\n1,2\n", "c.csv": "t,prey\n0,1\n1,2\n"}
    with pytest.raises(dd.DataError, match="a column 'prey', and .* a column 'Prey'"):
        read("b.csv", "c.csv", files=spelling)
    units = {"b.csv": "t,x\nh,mg\n0,1\n1,2\n", "c.csv": "t,x\nh,g\n0,1\n1,2\n"}
    with pytest.raises(dd.DataError, match="the unit is 'g', but 'mg' in b.csv"):
        read("b.csv", "c.csv", files=units)
    with pytest.raises(dd.DataError, match="two experiments are called 'b'"):
        read("b.csv", "b.csv", files={})


def test_values_below_a_limit(tmp_path):
    path = tmp_path / "low.csv"
    path.write_text("t,x_rep1,x_rep2\n0,5,4\n1,<0.5,0.6\n2,< 0.5,\n")
    data = dd.read_csv(path)
    assert data.below is not None
    assert data.x[data.below].tolist() == [0.5, 0.5] and data.below.shape == (5, 1)
    assert "2 values of 'x' are only known to be below a limit." in data.notes
    again = tmp_path / "again.csv"
    data.to_csv(again)
    read = dd.read_csv(again, start=0)
    assert read.below is not None and np.array_equal(read.below, data.below)
    assert np.array_equal(read.x, data.x)
    plain = data.select(["y", "x"])
    assert plain.below is not None and plain.below.sum() == 2


def test_a_time_is_not_a_limit(tmp_path):
    path = tmp_path / "low.csv"
    path.write_text("t,x\n0,5\n<1,4\n")
    with pytest.raises(dd.DataError, match="line 3, column 't': '<1' is a limit"):
        dd.read_csv(path)
