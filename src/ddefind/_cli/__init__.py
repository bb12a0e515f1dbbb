"""The command line: one file for each command, and what they share.

`main.py` defines the program, and each command has a file of its own, such as
`fit_command.py`. The options of a fit stand in the table of `_fitting/fit_options.py`;
`options.py` makes options of the program from them and declares all others,
`parse_options.py` turns texts and TOML values into numbers, `fit_settings.py` reads,
checks and writes `fit.toml`, and `fit_arguments.py` makes arguments of `dd.fit` of it.
`model_file.py` reads the model, `read_experiments.py` the data, `simulated_data.py`
makes data of a model and `simulated_study.py` those of several experiments,
`sweep_table.py` reads what a sweep is made of and `sweep_fits.py` makes its fits,
`output_folder.py` writes what a fit leaves behind, `output_folder.py` reads it again,
`output_folder.py` writes profiles, `messages.py` prints messages and defines the exit
codes, and `messages.py` makes commands start quickly. Begin with `main.py`.

May import: `_util`, `_data`, `noise`, `_problem`, `_equation`, `_adaptive`, `_solve`,
`_figures`, `plots`, `_loss`, `_inference`, `_results`, `_sweeps`, `_fitting`,
`datasets`, `paper`.
"""
