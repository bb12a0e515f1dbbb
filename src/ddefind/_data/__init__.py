"""Measurements: from a file or a data frame to arrays, and curves through them.

`csv_to_table.py`, `workbook_to_table.py` and `frame_to_table.py` turn a text file, an
Excel workbook or a data frame into a table of text (`table.py`). `read_columns.py`
chooses the columns by their names (`column_names.py`) and reads them, with the help of
`time_column.py`, `parse_dates.py` and `parse_cell.py`, and `data.py` holds the result.
What a table may have beyond plain columns has a file each: `units_row.py`,
`replicates.py`, `repeated_times.py`, `percentages.py`, `date_and_time.py`,
`detection_limits.py`. `read_records.py` reads the experiments of a study, with their
rows (`experiment_rows.py`), inputs (`input_columns.py`) and doses (`dose_rows.py`).
`spline.py` and `smoothing.py` draw curves through data. Begin with `data.py`.

May import: `_util`.
"""
