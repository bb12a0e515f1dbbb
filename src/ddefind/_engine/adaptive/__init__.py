"""Adaptive and stiff solvers, for delays of every kind.

Begin with `march.py`, the loop that chooses the steps. It uses, in this order:

- `pieces.py`: a solution as polynomials, one for each step, and how the past is read;
- `distributions.py`: distributed delays;
- `equation.py`: a problem as a function that reads its own past;
- `methods.py`: what a solver is. Each is a file: `radau.py`, and by one step of an
  explicit pair, `explicit.py`, the pair `tsit5.py`;
- `breaking_points.py`: where the solution has kinks, and how they move.

`reverse.py` is the gradient, by the adjoint of every step, and `solution.py` says why
there is no solution.
"""
