"""What least squares returns: the estimates, and how sure they are."""

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import jax
import numpy as np

from . import _levenberg
from ._contents import estimate_content
from ._equation import Equation
from ._errors import did_you_mean
from ._problem import Problem
from ._profile import Profile
from ._result import AbstractFit, Status
from ._search import Minimum, Searched
from ._setting import Setting
from ._store import write_saved
from ._summary import html_of, text_of
from ._uncertainty import Uncertainty
from ._verdict import Verdict, verdicts

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

    @cached_property
    def uncertainty(self) -> Uncertainty:
        return Uncertainty(self.setting, self.searched)

    @property
    def covariance(self) -> np.ndarray:
        """Of the estimates, in the order of `names`; infinite on the diagonal where the
        data determine nothing."""
        return self.uncertainty.covariance

    @property
    def standard_errors(self) -> dict[str, float]:
        return dict(zip(self.names, self.uncertainty.standard_errors.tolist()))

    @cached_property
    def _profiles(self) -> list[Profile]:
        return self.uncertainty.profiles()

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The 95% interval of each parameter, by profile likelihood; infinite on a side
        where the data set no limit."""
        return {profile.name: profile.interval for profile in self._profiles}

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What the data say of each parameter: determined, weakly, or not; and why."""
        return tuple(verdicts(self.uncertainty, self._profiles))

    @property
    def chi_square(self) -> float:
        """The sum of squares in units of the noise; without given noise it equals the
        degrees of freedom."""
        return float(self.searched.best.loss[0]) / self.uncertainty.unit

    @property
    def freedom(self) -> int:
        """Degrees of freedom: measured values less determined directions."""
        return self.uncertainty.freedom

    def profile(self, name: str, level: float = 0.95) -> Profile:
        """The profile likelihood of one parameter, with its interval."""
        index = self._index(name)
        return self.uncertainty.profiles(level, [index])[0]

    def plot_profile(self, *names: str) -> Any:
        """A matplotlib figure of profiles (of all parameters by default)."""
        from .plots import plot_profiles

        chosen = [self._index(name) for name in names] or range(len(self.names))
        return plot_profiles([self._profiles[index] for index in chosen])

    def _index(self, name: str) -> int:
        if name in self.names:
            return self.names.index(name)
        paths = self.setting.model.layout.paths
        if name in paths:
            return paths.index(name)
        raise ValueError(
            f"There is no free parameter {name!r}.{did_you_mean(name, self.names)}"
        )

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

    def summary(self) -> list[dict[str, Any]]:
        """A row for each parameter: name, estimate, standard error, 95% interval and
        verdict; None where there is no number."""
        rows = []
        for index, (name, value) in enumerate(self.values.items()):
            low, high = self._profiles[index].interval
            rows.append(
                {
                    "name": name,
                    "estimate": value,
                    "standard_error": _finite(self.standard_errors[name]),
                    "low": _finite(low),
                    "high": _finite(high),
                    "verdict": self.verdicts[index].verdict,
                    "reason": self.verdicts[index].reason,
                }
            )
        return rows

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit, with its data and profiles, to a file (JSON), whole or not at
        all. `dd.load` gives it back."""
        write_saved(path, estimate_content(self))

    def __str__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)

    def plot(self) -> Any:
        """A matplotlib figure: data and fitted trajectory, and the residuals."""
        from .plots import plot_estimate

        return plot_estimate(self)

    def plot_waterfall(self) -> Any:
        """A matplotlib figure: the sums of squares that the starts ended at, sorted."""
        from .plots import plot_waterfall

        return plot_waterfall(self)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def make_estimate(
    setting: Setting,
    problem: Problem,
    searched: Searched,
    seed: int,
    seconds: float,
    model: Equation | None,
) -> Estimate:
    layout, best = setting.model.layout, searched.best
    z = best.z[0]
    status = _STATUS[int(best.status[0])]
    if searched.interrupted:
        status = Status.interrupted
    loss = float(best.loss[0])
    plain = not setting.has_unit and len(searched.noise) == 1
    if plain and np.isfinite(loss):
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
        model=model,
    )
