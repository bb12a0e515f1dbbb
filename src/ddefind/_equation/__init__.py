"""Models written as text: from `"x' = r * x(t - tau)"` to a problem.

`parser.py` splits the text into statements. `translate_formula.py` and
`delayed_formulas.py` turn their right sides into formulas (`expression.py`) of known
functions and names only, and `model_lines.py` puts them together to a model, with the
networks of `network_names.py`. `formula_modules.py` makes Equinox modules of the
formulas, and `equation.py` puts these together to an `Equation`, with the history of
`history_kinds.py` and the inputs and doses of `given_tables.py`. `problem_template.py`
has its problem, whose parameters still need values; `problem_text.py` finds the text of
a problem again, and `latex.py` prints it. Begin with `equation.py`.

May import: `_util`, `_problem`, `models`.
"""
