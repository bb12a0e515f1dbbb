"""Charts as descriptions, and how matplotlib draws them.

`chart.py` describes the charts of a fit: curves, bands, dots, labels and ranges.
`panels.py` draws a chart on the axes of a figure, new or the user's. `ddefind.plots`
makes figures of the charts, and `_report` a page. Begin with `chart.py`.

May import: `_data`.
"""
