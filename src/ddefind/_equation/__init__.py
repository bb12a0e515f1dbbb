"""Models written as text: from `"x' = r * x(t - tau)"` to a problem.

`parser.py` and `parser.py` split the text into statements. `translate_formula.py` and
`delayed_formulas.py` turn their right sides into formulas of known functions and names
only, and `model_lines.py` puts them together to a model, with the networks of
`network_names.py`. `delayed_formulas.py` writes delayed definitions with delayed
states, `formula_modules.py` makes Equinox modules of the formulas, which
`equation.py` puts together, `formula_modules.py` finds the times at which they
switch, and
`problem_template.py` has a problem whose parameters still need values. `expression.py`
has the formulas themselves, and `latex.py` prints them. Begin with `equation.py`.

May import: `_util`, `_problem`, `models`.
"""
