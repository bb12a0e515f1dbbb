"""Excel workbooks: what is read from a sheet, and what is refused."""

import builtins
import datetime as dt
import io
import zipfile

import numpy as np
import pytest

import ddefind as dd
from support.fits import equal_data as equal

openpyxl = pytest.importorskip("openpyxl")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "book.xlsx"


def write(path, **sheets):
    """A workbook with the rows of each sheet."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)


def test_a_sheet(path):
    rows = [["Time", "x", "y", "site"], ["h", None, "mg", None]]
    rows += [[0, 1.5, None, "a"], [0.5, "NA", 4, "b"], [2, 1 / 3, 5, "b"]]
    write(path, Growth=rows)
    data = dd.read_csv(path)
    equal(data, [0, 0.5, 2], [[1.5, np.nan], [np.nan, 4], [1 / 3, 5]], "xy")
    assert data.label == "book" and data.axis_labels[2] == "y [mg]"


def test_a_title_and_gaps_around_the_table(path):
    rows = [["Strain A"], [], [None, "t", "x"], [None, 0, 1], [], [None, 1, 2]]
    write(path, Growth=rows)
    data = dd.read_csv(path)
    equal(data, [0, 1], [1, 2])
    assert data.notes == ("Above the table, row 1 ('Strain A') was left out.",)


def test_dates_and_times(path):
    day, late = dt.datetime(2024, 12, 31), dt.datetime(2025, 1, 1, 12)
    write(path, A=[["date", "x"], [day, 1], [late, 2]])
    data = dd.read_csv(path)
    equal(data, [0, 1.5], [1, 2])
    assert data.origin == "2024-12-31"
    write(path, A=[["time", "x"], [dt.time(8, 30), 1], [dt.time(9), 2]])
    equal(dd.read_csv(path), [0, 0.5], [1, 2])
    long = [dt.timedelta(hours=1), dt.timedelta(hours=25, minutes=30)]
    write(path, A=[["time", "x"], [long[0], 1], [long[1], 2]])
    equal(dd.read_csv(path), [1, 25.5], [1, 2])


def test_sheets(path):
    table = [["t", "x"], [0, 1], [1, 2]]
    write(path, Notes=[["about"]], Growth=table)
    equal(dd.read_csv(path, sheet="Growth"), [0, 1], [1, 2])
    with pytest.raises(dd.DataError, match="there is no sheet 'growth'. Did you mean"):
        dd.read_csv(path, sheet="growth")
    write(path, Growth=table, Notes=[["about"]])
    (note,) = dd.read_csv(path).notes
    assert "first sheet, 'Growth', was read. Others are 'Notes'" in note


@pytest.mark.parametrize(
    "rows, message",
    [
        ([["t", "x"], [0, 1], [], [1, "two"]], "row 4, column 'x': 'two' is"),
        ([["t", "x"], [0, 1], [1, 2, 3]], "row 3: 3 cells, but the header"),
        ([], "there are no rows"),
    ],
)
def test_errors_name_sheet_row_and_column(path, rows, message):
    write(path, A=rows)
    with pytest.raises(dd.DataError, match=f"sheet 'A'(:|,) {message}"):
        dd.read_csv(path)


def test_a_workbook_under_another_name(path, tmp_path):
    write(path, A=[["t", "x"], [0, 1], [1, 2]])
    path.rename(tmp_path / "book.dat")
    equal(dd.read_csv(tmp_path / "book.dat"), [0, 1], [1, 2])
    (tmp_path / "a.csv").write_text("t,x\n0,1\n1,2\n")
    with pytest.raises(ValueError, match="`sheet` is for workbooks"):
        dd.read_csv(tmp_path / "a.csv", sheet="A")


def test_other_files_are_refused(path):
    path.write_bytes(b"\xd0\xcf\x11\xe0" + bytes(64))
    with pytest.raises(dd.DataError, match="old or encrypted Excel. Save it as"):
        dd.read_csv(path)
    path.write_bytes(b"PK\x03\x04" + bytes(64))
    with pytest.raises(dd.DataError, match="not a workbook, or damaged"):
        dd.read_csv(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("content.xml", "<a/>")
    with pytest.raises(dd.DataError, match="archive is not an Excel workbook"):
        dd.read_csv(path)


def rewritten(path, change):
    """The workbook with each part changed by `change(name, content)`."""
    copy = io.BytesIO()
    with zipfile.ZipFile(path) as old:
        with zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                new.writestr(name, change(name, old.read(name)))
    path.write_bytes(copy.getvalue())


@pytest.mark.parametrize("part", ["xl/workbook.xml", "xl/worksheets/sheet1.xml"])
def test_damaged_parts_are_refused(path, part):
    write(path, A=[["t", "x"], [0, 1], [1, 2]])
    rewritten(path, lambda name, text: text[:200] if name == part else text)
    with pytest.raises(dd.DataError, match="the workbook is damaged"):
        dd.read_csv(path)


def test_a_small_file_that_is_large_when_unpacked(path):
    write(path, A=[["t", "x"], [0, 1], [1, 2]])
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/more.xml", bytes(201_000_000))
    assert path.stat().st_size < 1_000_000
    with pytest.raises(dd.DataError, match="bytes long when it is unpacked"):
        dd.read_csv(path)


@pytest.mark.parametrize("place", ["A99999999999", "ZZZ{}"])
def test_cells_far_away(path, place):
    write(path, A=[["t", "x"], [0, 1], [1, 2]])

    def far(name, text):
        if name != "xl/worksheets/sheet1.xml":
            return text
        rows = "".join(
            f'<row r="{r}"><c r="{place.format(r)}"><v>1</v></c></row>'
            for r in (range(4, 1500) if "{" in place else (99999999999,))
        )
        return text.replace(b"</sheetData>", rows.encode() + b"</sheetData>")

    rewritten(path, far)
    with pytest.raises(dd.DataError, match="has more than 20000000 cells or 1048576"):
        dd.read_csv(path)


def test_without_openpyxl(path, monkeypatch):
    write(path, A=[["t", "x"], [0, 1], [1, 2]])
    import_module = builtins.__import__

    def without(name, *rest):
        if name.startswith("openpyxl"):
            raise ImportError(name)
        return import_module(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(dd.DataError, match=r"pip install 'ddefind\[excel\]'"):
        dd.read_csv(path)
