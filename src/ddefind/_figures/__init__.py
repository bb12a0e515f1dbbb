"""Pieces of figures: panels, axes of times, and lines.

`panels.py` makes the figure, known to pyplot where that is in use, or takes the user's
axes. `time_axis.py` shows times as they stand in the source of the data.
`profile_panel.py` draws a profile and `function_panel.py` a learned function, in the
`colours.py` of all figures. The figures themselves are drawn by `ddefind.plots`.

May import: `_data`.
"""
