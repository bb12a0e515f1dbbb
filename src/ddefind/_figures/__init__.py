"""Charts as descriptions, and how matplotlib draws them.

`chart.py` describes a chart: curves, bands, dots, labels and ranges. `chart.py`
makes those of trajectories, residuals, profiles, learned functions and searches.
`panels.py` draws a chart on the axes of a figure, new or the user's. `ddefind.plots`
makes figures of the charts, and `_report` a page.

May import: `_data`.
"""
