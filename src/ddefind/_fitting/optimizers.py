"""The optimisers of gradient descent; optax does their steps."""

import abc
from typing import Any, ClassVar, NamedTuple, final

import equinox as eqx
import jax.numpy as jnp

from .._results.batch import FitBatch
from .._results.result import FitResult
from .._util.errors import check_positive
from .gradient_descent import descend
from .method import AbstractMethod
from .request import FitOptions, FitTask, FitTasks


@final
class Cosine(eqx.Module):
    r"""A rate that falls along a half cosine from `rate` to `final * rate` at the last
    epoch: $r_e = r\,(f + (1 - f)(1 + \cos(\pi e / E)) / 2)$.

    >>> Cosine(0.03).final
    0.1
    """

    rate: float = eqx.field(static=True)
    final: float = eqx.field(static=True, default=0.1)

    def __check_init__(self):
        check_positive("rate", self.rate)
        if not 0 <= self.final <= 1:
            raise ValueError(f"`final` must lie in [0, 1], but got {self.final}.")


class AbstractOptimizer(AbstractMethod):
    """An optimiser of gradient descent. A new one needs `transformation(epochs)`, its
    form in optax, and `elementwise`: whether it treats each element of the free vector
    on its own, so that many fits can run side by side in one array."""

    elementwise: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def transformation(self, epochs: int) -> Any: ...

    def check(self, options: FitOptions) -> None:
        """Refuse intervals; the values of the other options are checked by the fit."""
        if options.intervals:
            raise ValueError(
                f"`{type(self).__name__}()` computes no intervals. Leave out "
                "`intervals`, or fit with `dd.LeastSquares()`, which has them."
            )

    def fit(self, task: FitTask, options: FitOptions) -> FitResult:
        """Make one fit, which keeps its losses and its path."""
        given = task.problems, [task.data], [task.starts], task.seed
        tasks = FitTasks(*given, task.equation, task.parameters)
        return descend(self, tasks, options, keep_paths=True).result(0)

    def fit_many(self, tasks: FitTasks, options: FitOptions) -> FitBatch[FitResult]:
        """Make many fits, side by side in compiled blocks."""
        return descend(self, tasks, options, keep_paths=False).batch


def _check_schedule(rate: Any) -> None:
    if not isinstance(rate, Cosine):
        check_positive("rate", rate)


def _schedule(rate: float | Cosine, epochs: int):
    import optax

    if isinstance(rate, Cosine):
        return optax.cosine_decay_schedule(rate.rate, max(epochs, 1), rate.final)
    return optax.constant_schedule(rate)


class _AdamState(NamedTuple):
    mean: Any
    square: Any
    left_1: Any  # beta_1^e, the weight of the zeros that the means began with
    left_2: Any


def _adam_direction(beta_1: float, beta_2: float, tiny: float = 1e-8):
    """Return Adam's direction, m / (sqrt(v) + tiny) with the bias of m and v taken out.

    This differs from optax in that the powers of the betas are carried, not computed:
    for many fits side by side they would cost more than all the rest of a step."""
    import optax

    def init(params):
        zeros, one = jnp.zeros_like(params), jnp.ones((), params.dtype)
        return _AdamState(zeros, zeros, one, one)

    def update(updates, state, params=None):
        mean = beta_1 * state.mean + (1 - beta_1) * updates
        square = beta_2 * state.square + (1 - beta_2) * updates**2
        left_1, left_2 = beta_1 * state.left_1, beta_2 * state.left_2
        spread = jnp.sqrt(square / (1 - left_2))
        step = mean / ((1 - left_1) * (spread + tiny))
        return step, _AdamState(mean, square, left_1, left_2)

    return optax.GradientTransformation(init, update)


@final
class Adam(AbstractOptimizer):
    r"""Adam (Kingma and Ba): steps of about `rate` along the smoothed gradient.

    >>> Adam(0.03).rate
    0.03
    """

    rate: float | Cosine = eqx.field(static=True, default=0.03)
    beta_1: float = eqx.field(static=True, default=0.9)
    beta_2: float = eqx.field(static=True, default=0.999)
    elementwise: ClassVar[bool] = True

    def __check_init__(self):
        _check_schedule(self.rate)

    def transformation(self, epochs):
        import optax

        direction = _adam_direction(self.beta_1, self.beta_2)
        return optax.chain(
            direction, optax.scale_by_learning_rate(_schedule(self.rate, epochs))
        )


@final
class RMSProp(AbstractOptimizer):
    """RMSProp: the gradient divided by the root of its moving mean square."""

    rate: float | Cosine = eqx.field(static=True, default=0.01)
    decay: float = eqx.field(static=True, default=0.99)
    elementwise: ClassVar[bool] = True

    def __check_init__(self):
        _check_schedule(self.rate)

    def transformation(self, epochs):
        import optax

        return optax.rmsprop(_schedule(self.rate, epochs), self.decay)


@final
class SGD(AbstractOptimizer):
    """Gradient descent, with momentum if wanted."""

    rate: float | Cosine = eqx.field(static=True, default=1e-3)
    momentum: float = eqx.field(static=True, default=0.0)
    elementwise: ClassVar[bool] = True

    def __check_init__(self):
        _check_schedule(self.rate)

    def transformation(self, epochs):
        import optax

        momentum = self.momentum or None
        return optax.sgd(_schedule(self.rate, epochs), momentum)


@final
class LBFGS(AbstractOptimizer):
    """L-BFGS with a line search: few epochs, of several solves each.

    Its line search needs the exact gradient of the discretised loss: use `Discrete()`
    or `Forward()`."""

    memory: int = eqx.field(static=True, default=10)
    elementwise: ClassVar[bool] = False

    def transformation(self, epochs):
        import optax

        return optax.lbfgs(memory_size=self.memory)
