"""`fit` and `fit_many`, and the methods by which they fit.

`request.py` is a fit as it was asked for. A method takes a request and returns a
result: `least_squares.py`, and `gradient_descent.py` with its `optimizers.py`, whose
compiled loop is `epochs.py`, run in blocks by `descent_batches.py`. Begin with
`fit.py`.

May import: `_util`, `_data`, `_problem`, `_equation`, `_solve`, `_loss`,
`_least_squares`, `_results`.
"""
