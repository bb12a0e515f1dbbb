"""Fixed steps on a grid that is aligned with one constant delay.

Begin with `path.py`: the times of the nodes, their rows in a path, and the dense output
between them. `march.py` has the functions of a problem, the delayed states of a step
and the step loop, which the mesh uses as well; `reverse.py` the gradient, by the
adjoint of every step; and `sensitivity.py` the solution with its derivatives.
"""
