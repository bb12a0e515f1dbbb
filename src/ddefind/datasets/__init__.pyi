from ._files import NAMES as NAMES, path as path
from ._loaders import (
    blowflies as blowflies,
    influenza as influenza,
    lynx_hare as lynx_hare,
    nino34 as nino34,
    theophylline as theophylline,
)
