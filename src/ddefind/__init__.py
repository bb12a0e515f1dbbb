"""Learn delay differential equations from noisy, limited data.

>>> import ddefind as dd
"""

# ruff: noqa: I001
from typing import TYPE_CHECKING

from ._config import configure as _configure
from ._lazy import lazy_names as _lazy_names
from ._version import __version__ as __version__

_configure()

# Each name twice: for editors and type checkers, and for Python, which loads a module
# when one of its names is first used.
if TYPE_CHECKING:
    from . import models as models
    from ._adjoint import Adjoint as Adjoint
    from ._check import GradientCheck as GradientCheck, check_gradient as check_gradient
    from ._cost import L1 as L1, L2 as L2, AbstractCost as AbstractCost, Linf as Linf
    from ._criteria import Comparison as Comparison, compare as compare
    from ._data import Data as Data
    from ._equation import Equation as Equation, equation as equation
    from ._errors import DataError as DataError, ResultError as ResultError
    from ._estimate import Estimate as Estimate
    from ._fit import fit as fit, fit_many as fit_many
    from ._from_torch import from_torch as from_torch
    from ._gradient import (
        AbstractGradient as AbstractGradient,
        Discrete as Discrete,
        Forward as Forward,
        value_and_grad as value_and_grad,
    )
    from ._history import (
        AbstractHistory as AbstractHistory,
        Affine as Affine,
        Constant as Constant,
        Neural as Neural,
        Periodic as Periodic,
    )
    from ._load import SavedFit as SavedFit, load as load
    from ._loss import (
        AbstractLoss as AbstractLoss,
        Integral as Integral,
        SumOfSquares as SumOfSquares,
    )
    from ._optimizer import (
        LBFGS as LBFGS,
        SGD as SGD,
        AbstractOptimizer as AbstractOptimizer,
        Adam as Adam,
        Cosine as Cosine,
        LeastSquares as LeastSquares,
        RMSProp as RMSProp,
    )
    from ._parameters import (
        Fixed as Fixed,
        Parameter as Parameter,
        Tied as Tied,
        parameter_values as parameter_values,
    )
    from ._prior import Gaussian as Gaussian, LogNormal as LogNormal
    from ._problem import Problem as Problem
    from ._progress import Progress as Progress
    from ._published import Published as Published
    from ._read import read_csv as read_csv
    from ._result import FitBatch as FitBatch, FitResult as FitResult, Status as Status
    from ._solve import Solution as Solution, solve as solve
    from ._solver import (
        RK2 as RK2,
        RK4 as RK4,
        AbstractSolver as AbstractSolver,
        Euler as Euler,
    )
    from ._spline import Spline as Spline, spline as spline
    from ._text import EquationError as EquationError
else:
    __getattr__, __dir__, __all__ = _lazy_names(
        __name__,
        {
            "models": [],
            "_adjoint": ["Adjoint"],
            "_check": ["GradientCheck", "check_gradient"],
            "_cost": ["L1", "L2", "AbstractCost", "Linf"],
            "_criteria": ["Comparison", "compare"],
            "_data": ["Data"],
            "_equation": ["Equation", "equation"],
            "_errors": ["DataError", "ResultError"],
            "_estimate": ["Estimate"],
            "_fit": ["fit", "fit_many"],
            "_from_torch": ["from_torch"],
            "_gradient": ["AbstractGradient", "Discrete", "Forward", "value_and_grad"],
            "_history": ["AbstractHistory", "Affine", "Constant", "Neural", "Periodic"],
            "_load": ["SavedFit", "load"],
            "_loss": ["AbstractLoss", "Integral", "SumOfSquares"],
            "_optimizer": [
                "LBFGS",
                "SGD",
                "AbstractOptimizer",
                "Adam",
                "Cosine",
                "LeastSquares",
                "RMSProp",
            ],
            "_parameters": ["Fixed", "Parameter", "Tied", "parameter_values"],
            "_prior": ["Gaussian", "LogNormal"],
            "_problem": ["Problem"],
            "_progress": ["Progress"],
            "_published": ["Published"],
            "_read": ["read_csv"],
            "_result": ["FitBatch", "FitResult", "Status"],
            "_solve": ["Solution", "solve"],
            "_solver": ["RK2", "RK4", "AbstractSolver", "Euler"],
            "_spline": ["Spline", "spline"],
            "_text": ["EquationError"],
        },
    )
