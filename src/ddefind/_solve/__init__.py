"""Solving a delay equation: one step, all steps, and the way back through them.

`runge_kutta.py` makes one step, `march.py` is the step loop with the lookup of delayed
states, `hermite.py` the dense output between nodes, and `reverse.py` pulls a gradient
back through the steps. Begin with `solution.py`, which holds `solve`.

May import: `_util`, `_problem`.
"""
