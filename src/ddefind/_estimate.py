"""What least squares returns: the estimates, and how sure they are."""

from dataclasses import dataclass, field
from typing import Any, final

import jax
import numpy as np

from . import _levenberg
from ._problem import Problem
from ._result import AbstractFit, Status
from ._search import Minimum, Searched
from ._setting import Setting

_STATUS = {
    _levenberg.LIMIT: Status.limit,
    _levenberg.GRADIENT: Status.converged_gradient,
    _levenberg.STEP: Status.converged_step,
    _levenberg.EXACT: Status.exact,
    _levenberg.STUCK: Status.stuck,
    _levenberg.NO_START: Status.no_start,
}


@final
@dataclass(frozen=True, kw_only=True)
class Estimate(AbstractFit):
    """A least-squares fit, at the best minimum that was found.

    `minima` are the distinct minima, best first, reached from `starts` starts drawn
    with `seed`."""

    start: Problem
    starts: int
    seed: int
    setting: Setting = field(repr=False)
    searched: Searched = field(repr=False)

    @property
    def minima(self) -> tuple[Minimum, ...]:
        return self.searched.minima

    @property
    def noise(self) -> dict[str, float]:
        """The standard deviation of each quantity's noise, as given or estimated."""
        return dict(zip(self.data.names, self.searched.noise.tolist()))

    @property
    def fitted(self) -> np.ndarray:
        """What the model says at the times of the data, of the shape of `data.x`."""
        times, where = np.unique(self.data.t, return_inverse=True)
        x = self.solution(times)
        if self.problem.observe is not None:
            x = jax.vmap(self.problem.observe)(x, times)
        return np.asarray(x)[where]

    @property
    def residuals(self) -> np.ndarray:
        """Data minus model in units of the noise; NaN where nothing was measured."""
        sd = self.searched.noise if self.data.sd is None else self.data.sd
        return (self.data.x - self.fitted) / sd

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return {
            "parameters": self.values,
            "loss": self.loss if np.isfinite(self.loss) else None,
            "status": self.status.name,
            "message": self.message,
            "noise": self.noise,
            "starts": self.starts,
            "seed": self.seed,
            "minima": [
                {
                    "loss": minimum.loss,
                    "starts": minimum.starts,
                    "parameters": dict(zip(self.names, minimum.z.tolist())),
                }
                for minimum in self.minima
            ],
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        width = max(9, *map(len, self.names)) + 2
        lines = [f"{'parameter':<{width}}{'estimate':>12}"]
        for name, value in self.values.items():
            lines.append(f"{name:<{width}}{value:>12.5g}")
        lines.append(f"sum of squares {self.loss:.5g}, {self.seconds:.2g} s")
        lines.append(self.message)
        return "\n".join(lines)

    def plot(self) -> Any:
        """A matplotlib figure: data and fitted trajectory, and the residuals."""
        from .plots import plot_estimate

        return plot_estimate(self)

    def plot_waterfall(self) -> Any:
        """A matplotlib figure: the sums of squares that the starts ended at, sorted."""
        from .plots import plot_waterfall

        return plot_waterfall(self)


def make_estimate(
    setting: Setting, problem: Problem, searched: Searched, seed: int, seconds: float
) -> Estimate:
    layout, best = setting.model.layout, searched.best
    z = best.z[0]
    status = _STATUS[int(best.status[0])]
    if searched.interrupted:
        status = Status.interrupted
    loss = float(best.loss[0])
    if setting.data.sd is None and len(searched.noise) == 1:
        loss = float(best.squares[0].sum())
    first = np.where(np.isnan(setting.guess), z, setting.guess)
    return Estimate(
        problem=layout.problem(z, problem),
        start=layout.problem(first, problem),
        data=setting.data,
        names=layout.names,
        best=z,
        loss=loss,
        status=status,
        message=status.value,
        starts=searched.starts,
        seed=seed,
        seconds=seconds,
        solver=setting.model.solver,
        steps_per_delay=int(best.n[0]),
        setting=setting,
        searched=searched,
    )
