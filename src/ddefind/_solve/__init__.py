"""Solving a delay equation: the grid, the step loop, and its gradient in reverse.

Begin with `solve.py`. For fixed steps aligned with one delay it uses, in this order:

- `runge_kutta.py`: one step of a solver;
- `grid.py`: the times of the nodes, and their rows in a path;
- `path.py`: rows of states and slopes, and the dense output between them;
- `march.py`: the functions of a problem, the delayed states of a step, the step loop;
- `reverse.py`: the gradient, by the adjoint of every step.

`mesh.py`, `mesh_march.py` and `mesh_reverse.py` are for any number of constant delays
and switches, `adaptive_solution.py` for adaptive steps. `time_grid.py` and
`choose_solver.py` choose among these; `solution.py` is the result.

May import: `_util`, `_problem`, `_adaptive`.
"""
