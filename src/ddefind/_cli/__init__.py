"""The command line: its commands, and what they share.

Begin with `main.py`, which defines the program, and `fit_command.py`. Options:
`options.py` declares them, those of a fit from the table in `_fitting/fit_options.py`;
`parse_options.py` turns texts and TOML values into numbers; `fit_settings.py` reads,
checks and writes `fit.toml`, reads the data and makes arguments of `dd.fit`.
`model_file.py` reads the model, and `sweep_table.py` the table of a sweep.
`output_folder.py` writes and reads the folder of a fit. `simulated_data.py` makes data
from a model. `messages.py` has the exit codes, messages, and the quick start.

The public names are `import ddefind as dd`, which loads each when it is first used.

May import: `_util`, `_data`, `noise`, `_problem`, `_equation`, `_engine`, `_figures`,
`_loss`, `_inference`, `_results`, `_sweeps`, `_fitting`, `paper`.
"""
