"""The problem to solve or learn: the equation, its history and its parameters.

`problem.py` holds the initial value problem. Its parts are in `delays.py` and
`general_delays.py`, `history.py` (the state up to time zero), `inputs.py`, `doses.py`
and `network.py` (the neural network inside models and histories);
`function_parameters.py` finds the parameters of a user's functions. `without_doses.py`
and `driving.py` prepare problems with doses and inputs for the solvers. `parameters.py`
gives parameters their names and reads a user's settings and priors,
`free_parameters.py` maps them to the vector that a fit adjusts, and
`network_weights.py` finds the weights of networks among them. Begin with `problem.py`.

May import: `_util`, `noise`."""
