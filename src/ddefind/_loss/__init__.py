"""Losses of a trajectory, and the routes to their gradients.

`losses.py` compares a trajectory with data, by the `costs.py`; `path_costs.py` says how
a loss depends on the nodes of a solved path. `gradients.py` holds the exact routes,
`adjoint.py` the corrected theorem, `published.py` the formula as it was printed, and
`check_gradient.py` compares them all with differences. Begin with `gradients.py`.

May import: `_util`, `_data`, `_problem`, `_solve`.
"""
