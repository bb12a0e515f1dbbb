"""`fit` and `fit_many`, and the methods by which they fit.

`fit_options.py` is the table of all options, also of those of the command line.
`fit.py` has the arguments read, by `read_tasks.py`, into the tasks and options of
`request.py`, and hands them to a method. `method.py` says what a method is:
`least_squares.py` is one, `multiple_shooting.py` another, and each of the
`optimizers.py` of gradient descent is one. These share `gradient_descent.py`, whose
compiled loop is `epochs.py` and which `descent_batches.py` runs in blocks on all cores.
`history_from_data.py` has the histories that only data can settle, and
`scaled_networks.py` the scales of networks. `sweep.py` lets other workers make the fits
of `fit_many`, and keeps them in a folder. Begin with `fit.py`.

May import: `_util`, `noise`, `_data`, `_programs`, `_problem`, `_equation`, `_engine`,
`_loss`, `_search`, `_many_fits`, `_shooting`, `_inference`, `_results`, `_sweeps`.
"""
