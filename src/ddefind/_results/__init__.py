"""What a fit returns: records with thin methods, how they print, and their files.

`result.py` holds what every fit has, its page, and the result of gradient descent;
`estimate.py` the least-squares fit; `batch.py` many fits. `status.py` says how a fit
ended, and `network_functions.py` what its networks have learned. `printed_table.py`
prints an estimate, with its warnings, and `compare.py` compares several.

`saved_file.py` writes and reads files, `saved_fields.py` has the kinds of fields.
`saved_fit.py` describes every field of a fit, by which it is written and read, and
`saved_problem.py` describes a problem in words. `load.py` reads fits. Begin with
`estimate.py`, or with `saved_fit.py` for the files.

May import: `_util`, `noise`, `_data`, `_problem`, `models`, `_equation`, `_engine`,
`plots`, `_search`, `_shooting`, `_inference`, `_report`.
"""
