"""Models written as text: from `"x' = r * x(t - tau)"` to a problem.

`parser.py` cuts the text into statements, `check_formula.py` allows only known
functions and names, `statements.py` puts the model together, and `modules.py` turns it
into Equinox modules. `expression.py` holds the formulas, `latex.py` prints them. Begin
with `equation.py`.

May import: `_util`, `_problem`, `models`.
"""
