"""Discovery: which terms, and which delays, from noisy states alone.

Begin with `search.py`, which searches without a delay, with one, and with several, and
compares all models by a score. `discover.py` is the public function: it reads the
arguments, fits the best equation, and makes the `Discovery` of `discovery.py`.
`library.py` reads the candidate terms and compiles them into one program for all
structures. `proposals.py` integrates the data against test functions, to scan delays
and the parameters inside terms, whose ranges `inner_parameters.py` derives from the
data. `exact.py` fits the trajectories of structures. `climb.py` predicts which term
more or less would help, and goes there.

The public names are `import ddefind as dd`.

May import: `_util`, `_data`, `_figures`, `_equation`, `_search`, `_inference`,
`_fitting`, `_engine`.
"""
