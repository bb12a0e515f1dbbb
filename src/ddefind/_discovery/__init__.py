"""Discovery: which terms, and which delays, from noisy states alone.

`discover.py` has the question read by `read_question.py`, the best equation fitted by
`discover.py`, and makes the `Discovery` of `discovery.py`. The
`terms.py` that a user offers are compiled into one program for all structures, the
`library.py`. `weak_form.py` integrates the data against test functions, and
`proposals.py` scans delays and `inner_parameters.py` with it, whose
`inner_parameters.py` follow from the data. `exact.py` fits the
trajectories of structures; `climb.py` predicts which term more or less would help, and
`climb.py` goes there. `stages.py` does so without a delay, with one, and with several,
and `search.py` compares what all of them found by the `search.py`. Begin with
`search.py`.

May import: `_util`, `_data`, `_figures`, `_problem`, `models`, `_solve`, `_equation`,
`_loss`, `_search`, `_inference`, `_results`, `_fitting`.
"""
