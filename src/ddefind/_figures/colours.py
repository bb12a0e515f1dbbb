"""The colours of data, of start, learned and true trajectories, and of curves."""

DATA, START, LEARNED, TRUE = "#5a5a5a", "#d55e00", "#0072b2", "#000000"
# Colours and lines of several curves in one panel.
SERIES = ((LEARNED, "-"), (START, "-."), (TRUE, ":"))
