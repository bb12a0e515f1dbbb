"""What a fit returns: records with thin methods, how they print, and their files.

`result.py` holds what every fit has, its page, and the result of gradient descent;
`estimate.py` the least-squares fit; `batch.py` many fits. `status.py` says how a fit
ended, and `network_functions.py` what its networks have learned. `printed_table.py`
prints an estimate, with the warnings of `cautions.py`, and `compare.py` compares
several.

`save.py` says what is saved, `describe_problem.py` describes a problem in words, and
`saved_file.py` writes the file. `schema.py` is the format, and `load.py` reads it.
Begin with `estimate.py`, or with `schema.py` for the files.

May import: `_util`, `noise`, `_data`, `_problem`, `models`, `_equation`, `_engine`,
`plots`, `_search`, `_shooting`, `_inference`, `_report`.
"""
