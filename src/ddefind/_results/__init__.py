"""What a fit returns: records with thin methods, how they print, and their files.

`result.py` holds what every fit has, `estimate.py` the least-squares fit, `report.py`
and `cautions.py` what it prints. `save.py` says what is saved, `describe_problem.py`
turns a problem into words, `saved_file.py` writes the file, `load.py` reads it. Begin
with `result.py`.

May import: `_util`, `_data`, `_problem`, `models`, `_equation`, `_solve`, `plots`,
`_loss`, `torch`, `_least_squares`, `_inference`.
"""
