"""The command line: one file for each command, and what they share.

`options.py` and `parse_options.py` read what was typed, `fit_file.py` the `fit.toml`,
`model_file.py` the model, `startup.py` keeps compiled programs, `output_folder.py`
writes what a fit leaves behind, `messages.py` speaks. Begin with `main.py`.

May import: `_util`, `_data`, `_problem`, `_equation`, `_solve`, `plots`, `_loss`,
`_results`, `_fitting`, `paper`.
"""
