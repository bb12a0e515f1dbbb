"""The command line: one file for each command, and what they share.

`main.py` defines the program, and each command has a file of its own, such as
`fit_command.py`. `options.py` declares the options with their help, and
`parse_options.py` turns their texts into numbers. `fit_settings.py` reads and writes
`fit.toml`, `model_file.py` reads the model, `read_experiments.py` the data,
`simulated_data.py` makes data of a model and `simulated_study.py` those of several
experiments, `sweep_table.py` reads what a sweep is made of and `sweep_fits.py` makes
its fits, `output_folder.py` writes what a fit leaves behind, `saved_fits.py` reads
it again, `profile_files.py` writes profiles, `completion_words.py` collects what shells
complete and `completion_scripts.py` writes it in their languages, `messages.py` prints
messages and defines the exit codes, and `startup.py` makes commands start quickly.
Begin with `main.py`.

May import: `_util`, `_data`, `noise`, `_problem`, `_equation`, `_adaptive`, `_solve`,
`_figures`, `plots`, `_loss`, `_inference`, `_results`, `_sweeps`, `_fitting`,
`datasets`, `paper`.
"""
