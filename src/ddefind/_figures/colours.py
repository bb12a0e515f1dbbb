"""The colours of data, start, learned and true trajectories."""

DATA, START, LEARNED, TRUE = "#5a5a5a", "#d55e00", "#0072b2", "#000000"
