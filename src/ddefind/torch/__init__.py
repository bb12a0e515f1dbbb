"""Delay differential equations inside PyTorch programs.

`DelayODE` is a `torch.nn.Module` whose forward pass solves the equation and whose
backward pass is ddefind's own adjoint, both compiled by JAX. It needs PyTorch:
`pip install "ddefind[torch]"`.

`_from_torch.py` converts a torch module to a JAX function. `_check_module.py` calls the
module on example inputs. `_convert.py` exports its graph, turns it into a program of
the operators in `_operators.py`, and compares values and derivatives with torch.
`_delay_ode.py` is the layer `DelayODE`. Begin with `_from_torch.py` or `_delay_ode.py`.

The public names are `import ddefind as dd`.

May import: `_util`, `_problem`, `_engine`, `_loss`.
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
