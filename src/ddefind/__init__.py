"""Learn delay differential equations from noisy, limited data."""

from ._config import configure as _configure

_configure()

from . import models as models  # noqa: E402
from ._data import Data as Data  # noqa: E402
from ._history import (  # noqa: E402
    AbstractHistory as AbstractHistory,
    Affine as Affine,
    Constant as Constant,
    Neural as Neural,
    Periodic as Periodic,
)
from ._loss import Integral as Integral, L1 as L1, L2 as L2, Linf as Linf, SumOfSquares as SumOfSquares
from ._problem import Problem as Problem  # noqa: E402
from ._solver import (  # noqa: E402
    RK2 as RK2,
    RK4 as RK4,
    AbstractSolver as AbstractSolver,
    Euler as Euler,
)
