"""The public names: read by type checkers, and by Python, which loads each when it is
first used."""

from . import models as models
from . import paper as paper
from . import plots as plots
from . import torch as torch
from ._data.data import Data as Data
from ._data.read_csv import read_csv as read_csv
from ._data.spline import (
    Spline as Spline,
)
from ._data.spline import (
    spline as spline,
)
from ._equation.equation import (
    Equation as Equation,
)
from ._equation.equation import (
    equation as equation,
)
from ._equation.parser import EquationError as EquationError
from ._fitting.fit import (
    fit as fit,
)
from ._fitting.fit import (
    fit_many as fit_many,
)
from ._fitting.optimizers import (
    LBFGS as LBFGS,
)
from ._fitting.optimizers import (
    SGD as SGD,
)
from ._fitting.optimizers import (
    AbstractOptimizer as AbstractOptimizer,
)
from ._fitting.optimizers import (
    Adam as Adam,
)
from ._fitting.optimizers import (
    Cosine as Cosine,
)
from ._fitting.optimizers import (
    LeastSquares as LeastSquares,
)
from ._fitting.optimizers import (
    RMSProp as RMSProp,
)
from ._inference.model_selection import (
    Comparison as Comparison,
)
from ._inference.model_selection import (
    compare as compare,
)
from ._loss.adjoint import Adjoint as Adjoint
from ._loss.check_gradient import (
    GradientCheck as GradientCheck,
)
from ._loss.check_gradient import (
    check_gradient as check_gradient,
)
from ._loss.costs import (
    L1 as L1,
)
from ._loss.costs import (
    L2 as L2,
)
from ._loss.costs import (
    AbstractCost as AbstractCost,
)
from ._loss.costs import (
    Linf as Linf,
)
from ._loss.gradients import (
    AbstractGradient as AbstractGradient,
)
from ._loss.gradients import (
    Discrete as Discrete,
)
from ._loss.gradients import (
    Forward as Forward,
)
from ._loss.gradients import (
    value_and_grad as value_and_grad,
)
from ._loss.losses import (
    AbstractLoss as AbstractLoss,
)
from ._loss.losses import (
    Integral as Integral,
)
from ._loss.losses import (
    SumOfSquares as SumOfSquares,
)
from ._loss.published import Published as Published
from ._problem.history import (
    AbstractHistory as AbstractHistory,
)
from ._problem.history import (
    Affine as Affine,
)
from ._problem.history import (
    Constant as Constant,
)
from ._problem.history import (
    Neural as Neural,
)
from ._problem.history import (
    Periodic as Periodic,
)
from ._problem.parameters import (
    Fixed as Fixed,
)
from ._problem.parameters import (
    Parameter as Parameter,
)
from ._problem.parameters import (
    Tied as Tied,
)
from ._problem.parameters import (
    parameter_values as parameter_values,
)
from ._problem.priors import (
    Gaussian as Gaussian,
)
from ._problem.priors import (
    LogNormal as LogNormal,
)
from ._problem.problem import Problem as Problem
from ._results.estimate import Estimate as Estimate
from ._results.load import (
    SavedFit as SavedFit,
)
from ._results.load import (
    load as load,
)
from ._results.result import (
    FitBatch as FitBatch,
)
from ._results.result import (
    FitResult as FitResult,
)
from ._results.result import (
    Status as Status,
)
from ._solve.runge_kutta import (
    RK2 as RK2,
)
from ._solve.runge_kutta import (
    RK4 as RK4,
)
from ._solve.runge_kutta import (
    AbstractSolver as AbstractSolver,
)
from ._solve.runge_kutta import (
    Euler as Euler,
)
from ._solve.solution import (
    Solution as Solution,
)
from ._solve.solution import (
    solve as solve,
)
from ._util.errors import (
    DataError as DataError,
)
from ._util.errors import (
    ResultError as ResultError,
)
from ._util.progress import Progress as Progress
from .torch._from_torch import from_torch as from_torch

__version__: str
