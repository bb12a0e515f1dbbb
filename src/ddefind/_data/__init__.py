"""Measurements: from a file or a data frame to arrays, and curves through them.

`read_csv.py` turns a text file or an Excel workbook into a table of text (`table.py`),
from which `columns.py` chooses the columns by their names and reads them, with the
times by `times.py`. `data.py` holds the result, one record or many as arrays.
`read_study.py` reads the experiments of a study, with their inputs and their doses
(`doses.py`), which are data sets one after the other (`study_data.py`). `spline.py` and
`smoothing.py` draw curves through data. Begin with `data.py`.

May import: `_util`, `_problem`."""
