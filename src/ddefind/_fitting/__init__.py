"""`fit` and `fit_many`, and the methods by which they fit.

`fit_options.py` is the table of all options, also of those of the command line.
`fit.py` reads the arguments into the task and the options of `request.py`, and hands
them to a method. `request.py` says what a method is: `least_squares.py` is one,
`multiple_shooting.py` another, and each of the `optimizers.py` of gradient descent is
one. These share `gradient_descent.py`, whose compiled loop is `epochs.py` and which
`descent_batches.py` runs in blocks on all cores. `scaled_networks.py` takes the scales
of networks from data. `sweep.py` has the fits of `fit_many` made by other workers and
kept in a folder; `sweep.py` says as what. Begin with `fit.py`.

May import: `_util`, `noise`, `_data`, `_kernels`, `_problem`, `_equation`, `_adaptive`,
`_solve`, `_loss`, `_search`, `_many_fits`, `_shooting`, `_inference`,
`_results`, `_sweeps`.
"""
