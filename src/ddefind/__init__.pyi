"""The public names: read by type checkers, and by Python, which loads each when it is
first used."""

from . import (
    datasets as datasets,
    models as models,
    noise as noise,
    paper as paper,
    plots as plots,
    torch as torch,
)
from ._data.data import Data as Data, DataStack as DataStack
from ._data.read_csv import read_csv as read_csv
from ._data.read_study import read_study as read_study
from ._data.spline import Spline as Spline, spline as spline
from ._data.study_data import Experiment as Experiment
from ._discovery.discover import discover as discover
from ._discovery.discovery import Discovery as Discovery, FoundModel as FoundModel
from ._engine.adaptive.dop853 import DOP853 as DOP853
from ._engine.adaptive.radau import Radau as Radau
from ._engine.adaptive.tsit5 import Tsit5 as Tsit5
from ._engine.runge_kutta import (
    RK2 as RK2,
    RK4 as RK4,
    AbstractSolver as AbstractSolver,
    Euler as Euler,
)
from ._engine.solution import Solution as Solution
from ._engine.solve import solve as solve
from ._equation.equation import Equation as Equation, equation as equation
from ._equation.parser import EquationError as EquationError
from ._fitting.fit import (
    continue_from as continue_from,
    fit as fit,
    fit_many as fit_many,
)
from ._fitting.least_squares import LeastSquares as LeastSquares
from ._fitting.method import AbstractMethod as AbstractMethod
from ._fitting.multiple_shooting import MultipleShooting as MultipleShooting
from ._fitting.optimizers import (
    LBFGS as LBFGS,
    SGD as SGD,
    AbstractOptimizer as AbstractOptimizer,
    Adam as Adam,
    Cosine as Cosine,
    RMSProp as RMSProp,
)
from ._inference.learned_function import LearnedFunction as LearnedFunction
from ._loss.adjoint import Adjoint as Adjoint, Published as Published
from ._loss.check_gradient import (
    GradientCheck as GradientCheck,
    check_gradient as check_gradient,
)
from ._loss.gradients import (
    AbstractGradient as AbstractGradient,
    Discrete as Discrete,
    Forward as Forward,
    value_and_grad as value_and_grad,
)
from ._loss.losses import (
    L1 as L1,
    L2 as L2,
    AbstractCost as AbstractCost,
    AbstractLoss as AbstractLoss,
    Integral as Integral,
    Linf as Linf,
    SumOfSquares as SumOfSquares,
)
from ._problem.doses import Dose as Dose, SetState as SetState
from ._problem.general_delays import Delay as Delay
from ._problem.history import (
    AbstractHistory as AbstractHistory,
    Affine as Affine,
    Constant as Constant,
    Neural as Neural,
    NeuralHistory as NeuralHistory,
    Periodic as Periodic,
    Smooth as Smooth,
)
from ._problem.inputs import Input as Input
from ._problem.kernels import (
    GammaDelay as GammaDelay,
    InverseGaussianDelay as InverseGaussianDelay,
    LogNormalDelay as LogNormalDelay,
    UniformDelay as UniformDelay,
    WeibullDelay as WeibullDelay,
)
from ._problem.network import Network as Network
from ._problem.parameters import (
    Fixed as Fixed,
    Gaussian as Gaussian,
    GaussianPrior as GaussianPrior,
    LogNormal as LogNormal,
    LogNormalPrior as LogNormalPrior,
    Parameter as Parameter,
    Tied as Tied,
    parameter_values as parameter_values,
)
from ._problem.problem import Problem as Problem
from ._results.batch import FitBatch as FitBatch
from ._results.compare import Comparison as Comparison, compare as compare
from ._results.estimate import Estimate as Estimate
from ._results.load import SavedFit as SavedFit, load as load
from ._results.result import FitResult as FitResult
from ._results.status import Status as Status
from ._util.errors import DataError as DataError, ResultError as ResultError
from ._util.progress import Progress as Progress
from .torch._from_torch import from_torch as from_torch

__version__: str
