"""Many least-squares fits of one model to many data sets, searched for together.

`search.py` directs: it does what `_search/search.py` does for one data set, each phase
for all data sets as arrays, and asks whether the solver is right. `sets.py` holds the
data sets, `starts.py` draws and moves where fits begin, `refine.py` runs the fits, each
as a row of a program, and `minima.py` compares them.

What comes out for a data set is a function of it and its seed alone, whatever else is
in the batch. Searches that take an unusual way are left to be done alone.

May import: `_util`, `_data`, `_kernels`, `_problem`, `_solve`, `_loss`,
`_search`.
"""
