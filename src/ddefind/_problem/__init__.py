"""The problem to solve or learn: the equation, its history and its parameters.

`problem.py` holds the initial value problem, and says how many inputs its networks get;
`history.py` holds the histories, which are the state up to time zero, and `network.py`
the neural network inside models and histories. `parameters.py` gives parameters their
names and reads the user's settings and what is known about them before a fit, and
`free_parameters.py` maps them to the vector that a fit adjusts. Begin with
`problem.py`.

May import: `_util`, `noise`.
"""
