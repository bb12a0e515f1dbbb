"""What a fit returns: records with thin methods, how they print, and their files.

`result.py` holds what every fit has and the result of gradient descent, `estimate.py`
the least-squares fit, with the `from_search.py` that follow from a search and with
`from_search.py`, `batch.py` many fits, `status.py` how a fit ended, and
`learned_functions.py` what its networks have learned. `report.py` prints an estimate,
with the warnings of `cautions.py`, and `result.py` makes a page of it;
`compare.py` compares several.

A file is written by `save.py`, which says what is saved, and `saved_file.py`; a
problem is put into words by `describe_problem.py`. `schema.py` is the format, made of
the `schema.py`, and `load.py` reads them.
Begin with `estimate.py`, or with `schema.py` for the files.

May import: `_util`, `noise`, `_data`, `_problem`, `models`, `_equation`, `_adaptive`,
`_solve`, `plots`, `_loss`, `_search`, `_shooting`, `_inference`,
`_report`.
"""
