"""Discovery: which terms, and which delays, from noisy states alone.

Begin with `search.py`, which runs all stages and compares their models by a score.
`discover.py` is the public function: it has `read_question.py` read the arguments, fits
the best equation, and makes the `Discovery` of `discovery.py`. `terms.py` reads the
candidate terms, and `library.py` compiles them into one program for all structures.
`weak_form.py` integrates the data against test functions; `proposals.py` uses it to
scan delays and the parameters inside terms, whose ranges `inner_parameters.py` derives
from the data. `exact.py` fits the trajectories of structures. `climb.py` predicts which
term more or less would help, and goes there. `stages.py` does all this without a delay,
with one, and with several.

The public names are `import ddefind as dd`.

May import: `_util`, `_data`, `_figures`, `models`, `_equation`, `_search`,
`_inference`, `_fitting`, `_engine`.
"""
