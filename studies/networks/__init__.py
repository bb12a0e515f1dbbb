"""Equations with networks that are learned without start values: how often the data are
reached, and how good the delay, the named parameters, the functions and their bands
are. `systems.py` has the equations, `one_fit.py` measures a fit, and `__main__.py` runs
many of them side by side."""
