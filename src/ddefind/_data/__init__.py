"""Measurements: from a file or a data frame to arrays, and curves through them.

`csv_to_table.py` and `frame_to_table.py` turn a file or a data frame into a table of
text (`table.py`). `read_columns.py` chooses the columns and reads them, with the help
of `time_column.py`, `parse_dates.py` and `parse_cell.py`, and `data.py` holds the
result. `spline.py` and `smoothing.py` draw curves through data. Begin with `data.py`.

May import: `_util`.
"""
