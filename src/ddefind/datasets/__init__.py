"""Classic tables of data: populations, an epidemic, a climate index, a drug.

- `lynx_hare()`: pelts of hares and lynx, 21 years
- `blowflies()`: Nicholson's blowflies, counted over 400 days
- `influenza()`: boys in bed in a boarding school, 14 days
- `nino34()`: temperature of the equatorial Pacific (ENSO), 66 years by months
- `theophylline()`: concentrations of a drug in twelve people

Each number stands alike in two public sources, which the docstring of its function
names. `ddefind dataset lynx_hare` prints the table itself. Begin with `_loaders.py`.

May import: `_util`, `_data`."""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
