"""Adaptive and stiff solvers, for delays of every kind.

Begin with `march.py`, the loop that chooses the steps. It uses, in this order:

- `methods.py`: the solvers `Tsit5` and `Radau`, as numbers;
- `pieces.py`: a solution as polynomials, one for each step, and how the past is read;
- `distributions.py`: distributed delays;
- `equation.py`: a problem as a function that reads its own past;
- `explicit_step.py` and `implicit_step.py`: one step of each kind of method;
- `breaking_points.py`: where the solution has kinks, and how they move.

`reverse.py` is the gradient, by the adjoint of every step, and `solution.py` says why
there is no solution.
"""
