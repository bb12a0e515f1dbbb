"""Losses of a trajectory, and methods to compute their gradients.

`losses.py` has the losses, and `path_costs.py` their values and derivatives for the
rows of a solved path. Methods for a gradient are called routes: `gradients.py` has the
two exact ones, `adjoint.py` the corrected theorem for one delay and the formula as it
was printed. `check_gradient.py` compares them with central differences. Begin with
`gradients.py`.

May import: `_util`, `_data`, `_problem`, `_engine`.
"""
