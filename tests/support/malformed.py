"""Files that cannot be read as data, and what the error must say: each a content and a
pattern, by a name."""

import random

# What is no number, wherever it stands; those after the gap end in a digit or begin
# with one, so that a careless reader would take something from them.
NO_NUMBERS = (
    *("abc", "--5", "+-3", "e5", "$5", "=1+1", "=cmd|' /C calc'!A0", "true", "[mg]"),
    *("__import__('os').system('touch pwned')", "{{7*7}}", "'; DROP TABLE data", "½"),
    *("١٢", "x1", "<NA>", "n.d.", "--", "..", "?", "*", "above 5", "<LOD", "> 12"),
    #
    *("5 mg", "1e", "1e+", "0x1F", "1_000", "1.2.3", "1/2", "1+2j", "12:30"),
    *("3-4", "1e5.5", "5,5,5x", "2²", "1.5f", "0b1", "1..2", "1 2", "٣1", "5-"),
)
INFINITE = ("inf", "-inf", "Infinity", "+INF", "∞", "-∞")
TOO_LARGE = ("1e999", "-1e400", "9" * 400)
THOUSANDS = ("1,234.5", "1.234,5", "1'234", "1 234", "1,234,567", "1.234.567,8")
SEPARATORS = {
    "comma": ",",
    "semicolon": ";",
    "tab": "\t",
    "bar": "|",
    "blank": " ",
    "blanks": "   ",
}


def quoted(cell):
    return '"' + cell.replace('"', '""') + '"'


def cells():
    """A wrong cell in line 3, in each kind of column."""
    complaints = {
        "is not a number": NO_NUMBERS,
        "is not finite": INFINITE,
        "is too large": TOO_LARGE,
        "has separators of thousands": THOUSANDS,
    }
    for complaint, wrong in complaints.items():
        for cell in wrong:
            text = quoted(cell)
            yield (
                f"quantity {cell[:40]}",
                f"t,x,y\n0,1,2\n1,{text},3\n2,3,4\n",
                rf"line 3, column 'x': .*{complaint}",
            )
            yield (
                f"time {cell[:40]}",
                f"t;x;y\n0;1;2\n{text};5;3\n2;3;4\n",
                rf"line 3, column 't': .*{complaint}",
            )
            yield (
                f"deviation {cell[:40]}",
                f"t\tx\tx_sd\n0\t1\t2\n1\t5\t{text}\n2\t3\t4\n",
                rf"line 3, column 'x_sd': .*{complaint}",
            )


def rows():
    """A row that is too short or too long, for each separator."""
    for name, mark in SEPARATORS.items():
        table = [["t", "x", "y"], ["0", "1", "2"], ["1", "2", "3"], ["2", "3", "4"]]
        for line in (2, 3, 4):
            for what, row in (("short", ["1", "2"]), ("long", ["1", "2", "3", "4"])):
                changed = [*table[: line - 1], row, *table[line:]]
                yield (
                    f"{what} row {line}, {name}",
                    "\n".join(mark.join(cells) for cells in changed),
                    rf"line {line}: {len(row)} cells, but the header \(line 1\) has 3",
                )


DATES = {
    "month 13": ("2024-13-01", "line 3, column 'date': '2024-13-01' is no date"),
    "30 February": ("2024-02-30", "line 3.*is no date"),
    "29 February": ("2023-02-29", "line 3.*is no date"),
    "day 0": ("2024-01-00", "line 3.*is no date"),
    "year 0": ("0000-01-01", "line 3.*is no date"),
    "hour 24": ("2024-01-02T24:00", "line 3.*is no date"),
    "minute 60": ("2024-01-02 23:60", "line 3.*is no date"),
    "second 60": ("2024-01-02 23:59:60", "line 3.*is no date"),
    "hour alone": ("2024-01-02T12", "line 3.*is no date"),
    "ten digits": ("2024-01-02T12:00:00.1234567891", "line 3.*is no date"),
    "short year": ("02.01.24", "line 3.*no year of four digits"),
    "short year, bars": ("01/13/24", "line 3.*no year of four digits"),
    "no such month": ("2-Jam-2024", "line 3.*is no date"),
    "month by name, short year": ("2-Jan-24", "line 3.*no year of four digits"),
    "month alone": ("2024-01", "line 3.*is no date"),
    "a number": ("5", "line 3.*is no date"),
    "a word": ("soon", "line 3.*is no date"),
    "no date": ("", "line 3, column 'date': the date is missing"),
    "NA": ("NA", "line 3, column 'date': the date is missing"),
    "a zone": ("2024-01-02T00:00Z", "line 3.*has a time zone.*the first date has none"),
    "mixed marks": ("2024-01/02", "line 3.*is no date"),
    "longer": ("2024-01-02 and later", "line 3.*is no date"),
    "ambiguous": ("01/02/2024", "line 3.*is ambiguous"),
    "ambiguous, dashes": ("1-2-2024", "line 3.*is ambiguous"),
    "no month, no day": ("13/13/2024", "line 3.*is no date"),
}


def dates():
    for name, (cell, message) in DATES.items():
        yield f"date: {name}", f"date,x\n2024-01-01,1\n{cell},2\n", message


CONTENTS = {
    "empty": ("", "the file is empty"),
    "blank": (" \n\t\n\r\n  ", "the file is empty"),
    "a mark alone": (b"\xef\xbb\xbf", "the file is empty"),
    "comments": ("# t,x\n# 0,1\n", "there are no rows, only comments"),
    "header alone": ("t,x\n", "there are no rows of data"),
    "header and comments": ("t,x\n# 0,1\n\n", "there are no rows of data"),
    "header and empty rows": ("t,x\n,\n,\n", "there are no rows of data"),
    "one row": ("t,x\n0,1\n", "column 't': all rows have the same time"),
    "one time": ("t,x\n2,1\n2,3\n2.0,4\n", "column 't': all rows have the same time"),
    "one date": ("date,x\n2024-01-01,1\n2024/01/01,3\n", "column 'date': all rows"),
    "one row, no header": ("0,1\n", "column 't': all rows have the same time"),
    "one column": ("t\n0\n1\n", "line 1: 't' is one cell only"),
    "one column, no header": ("0\n1\n", "line 1: '0' is one cell only"),
    "a time alone": ("t,\n0,\n1,\n", "line 1: 't,' is one cell only"),
    "separators": (",,,\n,,,\n", "line 1: ',,,' is one cell only"),
    "other separator": ("t&x\n0&1\n1&2\n", "line 1: 't&x' is one cell only"),
    "nothing measured": ("t,x\n0,\n1,NA\n", "nothing is measured"),
    "only text": ("t,site\n0,a\n1,b\n", "no column of numbers beside the time"),
    "a title": ("My data\nt,x\n0,1\n1,2\n", r"line 2: 1 cell, but the header \(line 1"),
    "a long title": ("Lake\n\nt,x\n0,1\n", "line 1: 'Lake' is one cell only"),
    "units of units": ("t,x\n[h],[mg]\nh,mg\n0,1\n1,2\n", "line 3, column 't': 'h'"),
    "a sum below": ("t,x\n0,1\n1,2\nsum,3\n", "line 4, column 't': 'sum' is not"),
    "a header again": ("t,x\n0,1\nt,x\n1,2\n", "line 3, column 't': 't' is not"),
    "a time is missing": ("t,x\n0,1\n,2\n2,3\n", "line 3, column 't': the time is m"),
    "a time is NA": ("t,x\n0,1\nNA,2\n2,3\n", "line 3, column 't': the time is m"),
    "lines count": ("# a\n\nt,x\n# b\n0,1\n\n1,?\n", "line 7, column 'x': '\\?' is"),
    "lines count, CRLF": ("#\r\n\r\nt,x\r\n0,1\r\n1,?\r\n", "line 5, column 'x'"),
    "lines count, CR": ("#\r\rt,x\r0,1\r1,?\r", "line 5, column 'x'"),
    "decimal commas": ("t,x\n0,1,5\n1,2,5\n", "line 2: 3 cells.*semicolons"),
    "letter": ("Dear all,\nthe data are late.\n", "line 2: 4 cells, but the header"),
    "json": ('{"t": [0, 1],\n "x": [1, 2]}\n', "line 2: the quotes"),
    "html": (
        "<html><body>\n<p>404, not found</p>\n</body></html>\n",
        "line 1: '<html>",
    ),
    "python": ("import os\nos.system('touch pwned')\n", "'import', 'os'"),
    "a formula as a name": ("t,=1+1\n0,?\n1,2\n", "line 2, column '=1\\+1': '\\?'"),
    # names
    "no time": ("a,b\n0,1\n1,2\n", "no column is called t or time.*'a', 'b'.*`time="),
    "T is no time": ("T,V\n0,1\n1,2\n", "no column is called t or time.*'T', 'V'"),
    "two times": ("date,time,x\n0,1,2\n1,2,3\n", "several.*'date', 'time'.*`time="),
    "time twice": ("t,x,t\n0,1,2\n1,2,3\n", "line 1: two columns are called 't'"),
    "name twice": ("t,x,x\n0,1,2\n1,2,3\n", "line 1: two columns are called 'x'"),
    "no name": ("t,,x\n0,1,2\n1,2,3\n", "line 1: column 2 has no name"),
    "no first name": (",t,x\n5,1,2\n7,2,3\n", "line 1: column 1 has no name"),
    "no last name": ("t,x,\n0,1,2\n1,2,3\n", "line 2: 3 cells, but the header"),
    "typing error above": ("0,1O\n1,2\n", "no column is called t.*'0', '1O'"),
    "names of replicates": ("t,x,x\n0,1,2\n", "call them 'x_rep1', 'x_rep2'"),
    "unknown separator": ("sep=:\nt:x\n0:1\n", "line 1: 'sep=:' names ':'"),
    "no row of units": ("t,x\nO,1\n1,2\n", "line 2, column 't': 'O' is not a num"),
    # times of day and percentages
    "midnight": ("time,x\n23:50,1\n00:10,2\n", "line 3.*'00:10' comes after '23:50'"),
    "no minute": ("time,x\n08:30,1\n09:60,2\n", "line 3.*'09:60' is no time of day"),
    "no percentage": ("t,x\n0,5%\n1,6\n", "line 3, column 'x': '6' has no percent si"),
    "no percentage of sd": (
        "t,x,x_sd\n0,5%,1\n1,6%,1\n",
        "'x' holds percentages, but .* 'x_sd'",
    ),
    "percentage of time": ("t,x\n0%,5\n1%,6\n", "line 2, column 't': '0%' is no time"),
    # standard deviations
    "negative sd": ("t,x,x_sd\n0,1,-.1\n1,2,.1\n", "line 2, column 'x_sd'.*is -0.1"),
    "zero sd": ("t,x,x_sd\n0,1,1\n1,2,0\n", "line 3, column 'x_sd'.*positive.*is 0"),
    "no sd": ("t,x,x_sd\n0,1,1\n1,2,\n", "line 3, column 'x_sd': 'x' is measured here"),
    "sd of nothing": ("t,x,y_sd\n0,1,1\n1,2,1\n", "'y_sd' is the standard dev.*'y'"),
    "sd of the time": ("t,x,t_sd\n0,1,1\n1,2,1\n", "'t_sd' is the standard dev.*'t'"),
    "sd of one": ("t,x,y,x_sd\n0,1,2,1\n1,2,3,1\n", "none of standard.*'y'.*for all"),
    "sd of sd": ("t,x,x_sd_sd\n0,1,1\n1,2,1\n", "'x_sd_sd' is the standard"),
    # decimal marks
    "mixed marks": ("t;x\n0;1,5\n1;2.5\n", "line 2, column 'x': '1,5'.*'2.5'.*line 3"),
    "mixed, time": ("t;x\n0.5;1,5\n1;2\n", "line 2, column 'x': '1,5'.*'0.5'.*line 2"),
    "maybe thousands": ("t;x\n0;1,234\n1;2,345\n", "line 2.*'1,234' is ambiguous"),
    "maybe thousands, quoted": ('t,x\n0,"1,234"\n1,"12,345"\n', "line 2.*ambiguous"),
    # quotes
    "open quote": ('t,x\n0,"1\n1,2\n', "line 2: the quotes do not match"),
    "open quote above": ('"t,x\n0,1\n1,2\n', "line 1: the quotes"),
    "open quote below": ('t,x\n0,1\n1,"', "line 3: the quotes do not match"),
    "after a quote": ('t,x\n0,"1"2\n1,2\n', "line 2: the quotes do not match"),
    "line in a name": ('t,"x\n(mg)"\n0,1\n1,2\n', "line 1: the quotes do not match"),
    # large
    "large cell": ("t,x\n0," + "1" * 2000 + "\n1,2\n", "line 2: a cell of 2000 char"),
    "huge cell": (
        "t,x\n0," + "a" * 3_000_000 + "\n1,2\n",
        "line 2: a line of 3000002 characters",
    ),
    "huge name": ("t," + "a" * 5000 + "\n0,1\n1,2\n", "line 1: a cell of 5000 char"),
    "huge line": ("0," * 500_000, "line 1: a line of 1000000 characters"),
    "many columns": ("t" + ",x" * 50_000 + "\n", "line 1: two columns are called 'x'"),
    "late error": ("t,x\n0,2\n" + "1,2\n" * 20_000 + "1,?\n", "line 20003, column 'x'"),
    # times out of reach
    "overflow": ("t,x\n-1e308,1\n1e308,2\n", "column 't': .*double precision"),
    "lost times": ("t,x\n-1e17,1\n1,2\n2,2\n", "column 't': .*double precision"),
    "both orders": ("date,x\n1/31/2024,1\n31/1/2024,2\n", "line 2.*month first.*day f"),
    "far zone": ("time,x\n2024-01-01T00:00+25:00,1\n", "line 2.*is no date"),
    "before all dates": ("t,x\n0001-01-01T00:00+01:00,1\n", "line 2.*is no date"),
    "mixed zones": ("time,x\n2024-01-01T00:00Z,1\n2024-01-02,2\n", "line 3.*no time z"),
    "dates after numbers": ("t,x\n0,1\n2024-01-01,2\n", "line 3.*-01' is not a number"),
}
RANDOM = random.Random(5)
BINARY = {
    "zeros": bytes(100),
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03data",
    "png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    "pickle": b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94.",
    "program": b"\x7fELF\x02\x01\x01\x00",
    "hdf5": b"\x89HDF\r\n\x1a\n\x00\x00",
    "UTF-16 without a mark": "t,x\n0,1\n1,2\n".encode("utf-16-le"),
    "half of UTF-16": b"\xff\xfet\x00,\x00x",
    "no UTF-32": b"\xff\xfe\x00\x00t,x\n0,1\n1,2\n",
    "a zero in a row": b"t,x\n0,1\x00\n1,2\n",
    "an escape in a name": b"t,\x1b[31mx\n0,1\n1,2\n",
    "no letter in any code": b"t,\x81\n0,1\n1,2\n",
    "no UTF-8 after its mark": b"\xef\xbb\xbft,\xff\n0,1\n1,2\n",
    **{f"noise {i}": RANDOM.randbytes(300) for i in range(10)},
}


def malformed():
    """All of them, by name: content in bytes, and a pattern."""
    cases = [*cells(), *rows(), *dates()]
    cases += [(name, *case) for name, case in CONTENTS.items()]
    cases += [(name, content, "not a text file") for name, content in BINARY.items()]
    found = {}
    for name, content, message in cases:
        assert name not in found
        data = content.encode() if isinstance(content, str) else content
        found[name] = data, message
    return found
