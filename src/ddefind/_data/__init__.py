"""Measurements: from a file or a data frame to arrays, and curves through them.

A file is read in this order: `csv_table.py` cuts text into a table of `cells.py`,
`time_column.py` and `dates.py` read the times, `columns.py` the measured quantities,
and `data.py` holds the result. `spline.py` and `smoothing.py` draw curves through data.
Begin with `data.py`.

May import: `_util`.
"""
