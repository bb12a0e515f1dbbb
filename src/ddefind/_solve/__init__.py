"""Solving a delay equation: the grid, the step loop, and its gradient in reverse.

Begin with `solve.py`. It uses, in this order:

- `runge_kutta.py`: one step of a solver;
- `grid.py`: where the nodes are in time, and in which rows of a path;
- `march.py`: the functions of a problem, with its solver and its grid;
- `path.py` and `path.py`: rows of states and slopes, how they are stored, and the
  dense output between them;
- `march.py`: the delayed states that a step needs;
- `march.py`: the step loop;
- `reverse.py`: the gradient, by the adjoint of every step.

May import: `_util`, `_problem`, `_adaptive`.
"""
