"""The report of a fit: one page of HTML that needs nothing else.

- `build.py`: the page, put together from its sections. Begin here.
- `trajectory.py`: the sections on data, fitted curve and residuals.
- `estimates.py`: those on estimates, profiles, correlations and minima.
- `dynamics.py`: those on the equation itself, which `formula.py` typesets.
- `settings.py`: the section on the settings.
- `blocks.py`: what sections are made of.
- `pictures.py`: charts of `_figures` as pictures, for paper and for readers without
  JavaScript. In the browser the scripts in `page` draw them.
- `page`: template, style and scripts.

May import: `_util`, `_data`, `_problem`, `_figures`, `plots`, `_search`,
`_inference`.
"""
