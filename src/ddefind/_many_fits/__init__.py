"""Many least-squares fits of one model to many data sets, searched for together.

`search.py` directs: it runs the phases of `_search/search.py`, each for all data sets
as arrays, and checks the solver. `sets.py` has the data sets, `starts.py` draws and
moves starts, `refine.py` runs fits, each as a row of a program, and `minima.py`
compares them. Begin with `search.py`.

The result for a data set depends on it and its seed alone, whatever else is in the
batch. Data sets whose search takes an unusual way are left, and are fitted alone.

May import: `_util`, `_data`, `_programs`, `_problem`, `_engine`, `_search`.
"""
