"""Delay differential equations inside PyTorch programs.

`DelayODE` is a `torch.nn.Module` whose forward pass solves the equation, and whose
backward pass is ddefind's own adjoint, both compiled. It needs PyTorch:
`pip install "ddefind[torch]"`.

`_from_torch.py` converts modules: `_trial.py` calls them, `_export.py` turns their
graph into the steps of a `_program.py`, whose operators are those of `_operators.py`,
and `_verify.py` compares values and derivatives with torch's own. Begin with
`_from_torch.py`, or with `_delay_ode.py` for the layer.

May import: `_util`, `_problem`, `_solve`, `_loss`.
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
