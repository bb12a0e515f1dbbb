"""What a user asks to be solved or learned: the equation, its history, its parameters.

`problem.py` is the initial value problem, `history.py` the state before time zero,
`parameters.py` the names, starts and bounds of what is learned, and
`free_parameters.py` maps them to one vector. Begin with `problem.py`.

May import: `_util`.
"""
