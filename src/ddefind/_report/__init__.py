"""The report of a fit: one page of HTML that needs nothing else.

`build.py` puts the page together from sections: `trajectory.py` makes those of data and
fitted curve and of residuals, `estimates.py` those of the estimates, profiles,
correlations and minima, `dynamics.py` those of the equation itself, and `settings.py`
that of the settings. `blocks.py` are what sections are made of. A chart of `_figures`
is drawn twice: by `pictures.py` as a picture, for paper and for readers without
JavaScript, and in the browser by the scripts in `page`, where template and style are as
well. `formula.py` typesets the equation. Begin with `build.py`.

May import: `_util`, `_data`, `_problem`, `_figures`, `plots`, `_search`,
`_inference`.
"""
