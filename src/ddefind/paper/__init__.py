"""The DDE-Find paper's experiments: their data, protocols and tables.

`EXPERIMENTS` holds the paper's five models with their true parameters, start values and
printed tables. `PROTOCOLS` holds the ways in which the parameters are learned.
`reproduce` runs a `Plan` and keeps the results in a `ResultsFolder`, one `LevelResults`
for each model and noise level. The command `ddefind paper` does the same. Begin with
`_experiments.py`.

Uses the package as a user does, by `import ddefind`.

May import: `_util`, `_problem`, `_figures`."""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
