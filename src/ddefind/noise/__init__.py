"""Noise models: how measured values scatter around what a model predicts.

In each, f is what the model predicts and y what is measured. Parameters that are None
are learned. `dd.fit(..., noise=...)` takes these models, or their names.

`_abstract.py` has the contract of a noise model; `_gaussian.py`, `_student.py` and
`_counts.py` hold the models, and `_read_noise.py` reads what a user writes for them. A
new model is a class with its `word`, and its public name in `__init__.pyi`; nothing
else lists them. Begin with `_abstract.py`.

May import: `_util`."""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
