"""Measurements: from a file or a data frame to arrays, and curves through them.

`csv_lines.py` and `workbook.py` turn a text file or an Excel workbook into a table of
text (`table.py`). `columns.py` chooses the columns by their names and reads them, with
the times by `times.py`, and `data.py` holds the result. `experiments.py` reads the
experiments of a study, with their inputs (`inputs.py`) and doses (`doses.py`). A study
is many data sets one after the other (`study_data.py`), `stack.py` holds them as
arrays. `spline.py` and `smoothing.py` draw curves through data. Begin with `data.py`.

May import: `_util`.
"""
