"""The report of a fit: one page of HTML that needs nothing else.

`build.py` puts the page together from sections, each made by a file of its own:
`course.py` (data, fitted curve and prediction), `function_charts.py` (what networks
have learned), `estimates.py` (the table, and how the estimates hang together),
`profile_charts.py`, `residuals.py`, `search.py` (the minima),
`delayed_state.py`, `dynamics.py` (stability), and `asked.py` (what was asked for, and
how to repeat it). A `chart.py` is a description that is drawn twice: by `svg.py` as a
picture for paper and for readers without JavaScript, and in the browser by the scripts
in `page`. `formula.py` typesets the equation, and `page` holds template and style.
Begin with `build.py`.

May import: `_util`, `_data`, `_problem`, `_figures`, `plots`, `_least_squares`,
`_inference`.
"""
