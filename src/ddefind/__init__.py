"""Learn delay differential equations from noisy, limited data.

>>> import ddefind as dd
"""

import lazy_loader as _lazy_loader

from ._util.jax_settings import configure_jax as _configure_jax
from ._util.version import __version__ as __version__

_configure_jax()
# The public names stand in `__init__.pyi`; each is loaded when it is first used.
__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
