"""Least squares: the best fit from many starts, with all derivatives.

In the order of a fit: `setup.py` takes in the problem, data and bounds; `starts.py` and
`gradient_matching.py` propose where to begin; `sensitivity.py` solves the equation with
its derivatives, `normal_equations.py` adds them up, `levenberg_marquardt.py` makes the
steps, `batches.py` runs many fits on all cores, and `ranking.py` compares their minima.
Begin with `search.py`, which directs all this.

May import: `_util`, `_data`, `_problem`, `_solve`, `_loss`.
"""
