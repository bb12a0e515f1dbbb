"""Many least-squares fits of one model to many data sets, searched for together.

`search.py` directs: it does what `_least_squares/search.py` does for one data set, each
phase for all data sets as arrays. `sets.py` holds the data sets, `fits.py` their fits.
`starts.py` draws where fits begin, by the numbers of `random.py`; `matching.py` moves
the starts, `refine.py` runs the fits, each as a row of `rows.py`, and `minima.py`
compares them. `solver_check.py` asks whether the solver is right.

What comes out for a data set is a function of it and its seed alone, whatever else is
in the batch. Searches that take an unusual way are left to be done alone.

May import: `_util`, `_data`, `_kernels`, `_problem`, `_solve`, `_loss`,
`_least_squares`.
"""
