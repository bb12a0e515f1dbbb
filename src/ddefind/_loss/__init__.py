"""Losses of a trajectory, and methods to compute their gradients.

`losses.py` compares a trajectory with data by the distances of `losses.py`, and
`path_costs.py` says how a loss depends on the rows of a solved path. Methods for a
gradient are called routes: `gradients.py` has the two exact ones, `adjoint.py` the
corrected theorem for one delay, and `adjoint.py` the formula as it was printed.
`gradients.py` is what the exact ones do with adaptive steps.
`check_gradient.py` compares them with central differences. Begin with `gradients.py`.

May import: `_util`, `_data`, `_problem`, `_adaptive`, `_solve`.
"""
