"""The DDE-Find paper's experiments: their data, protocols and tables.

`EXPERIMENTS` has the paper's five models with their true parameters, starts and printed
tables; `PROTOCOLS` the ways in which their parameters were learned; `reproduce` runs
them. `ddefind paper` is the same on the command line. Begin with `_experiments.py`.

May import: `_util`, `_data`, `_problem`, `models`, `_solve`, `plots`, `_loss`,
`_results`, `_fitting`.
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
