"""The DDE-Find paper's experiments and protocols, as data.

A `PaperExperiment` is one of the paper's models with its data, start values and printed
tables. A `Protocol` is a way to learn the parameters. `_run.py` runs them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, final
from zlib import crc32

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import ddefind as dd

from .._problem.parameters import with_values

# The noise levels of the paper's tables, and the number of data sets behind each table.
NOISE = (0.1, 0.3, 0.9)
REPEATS = 20


@cache
def _printed() -> dict[str, Any]:
    """Return the paper's tables and the Cramér-Rao bounds of its data, by model."""
    text = files("ddefind").joinpath("paper/paper.json").read_text("utf-8")
    return json.loads(text)["models"]


class PrintedTable(NamedTuple):
    """A table as the paper prints it: a mean and a standard deviation for each
    parameter, NaN where the paper prints none."""

    mean: np.ndarray
    sd: np.ndarray


@final
@dataclass(frozen=True, eq=False)
class PaperExperiment:
    """One of the paper's five models, with its data and its start values.

    - `true`, `start`: the problem that the data were made with, and the one that fits
      start from.
    - `T`, `steps_per_delay`: the length of the data, and the steps of the solver that
      made them and that fits them.
    - `names`: our name of each learned parameter, by the paper's name and in its order.
    - `components`: the label in figures of each component of the state, by its name.
    - `fixed`: parameters that are known and not learned.
    - `starts_at_data`: whether the history's offset `b` starts at the first data point.
    """

    model: str
    title: str
    true: dd.Problem
    start: dd.Problem
    T: float
    steps_per_delay: int
    names: Mapping[str, str]
    components: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({"x": "$x(t)$"})
    )
    fixed: tuple[str, ...] = ()
    starts_at_data: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        """The learned parameters by the paper's names, in the paper's order."""
        return tuple(self.names)

    @cached_property
    def clean(self) -> dd.Data:
        """The data without noise, as in the paper: the nodes of an RK2 solution."""
        solution = dd.solve(self.true, self.T, dd.RK2(), self.steps_per_delay)
        return dd.Data(solution.t, solution.x, names=tuple(self.components))

    @cached_property
    def exact(self) -> dd.Data:
        """The exact solution at the times of `clean`."""
        solution = dd.solve(self.true, self.T, steps_per_delay=400)
        return dd.Data(self.clean.t, solution(self.clean.t), names=self.clean.names)

    def data(
        self, noise: float, repeat: int, seed: int = 0, *, exact: bool = False
    ) -> dd.Data:
        """Draw a noisy data set. The standard deviation of a component's noise is
        `noise` times the standard deviation of the component over time.

        The random numbers depend on the model and the arguments only, so that a part of
        the experiments gives the same numbers as all together. With `exact` the noise
        is added to the exact solution instead of the RK2 solution."""
        bits = int(np.float64(noise).view(np.uint64))
        random = np.random.default_rng([seed, crc32(self.model.encode()), bits, repeat])
        x = (self.exact if exact else self.clean).x
        spread = noise * np.std(x, axis=0, ddof=1)
        noisy = x + spread * random.standard_normal(x.shape)
        return dd.Data(self.clean.t, noisy, names=self.clean.names)

    def start_for(self, data: dd.Data) -> dd.Problem:
        """Return the problem that the fit of a data set starts from."""
        if not self.starts_at_data:
            return self.start
        first = jnp.asarray(data.x[0])
        return eqx.tree_at(lambda problem: problem.history.b, self.start, first)

    def at(self, values: np.ndarray) -> dd.Problem:
        """Return the problem with these learned values, in the paper's order."""
        learned = dict(zip(self.names.values(), np.asarray(values).tolist()))
        every = dd.parameter_values(self.true) | learned
        return with_values(self.true, np.array(list(every.values())))

    def published(self, noise: float) -> PrintedTable | None:
        """Return the paper's table for a noise level, or None if there is none."""
        table = _printed()[self.model]["tables"].get(f"{noise:g}")
        return table and PrintedTable(_floats(table["mean"]), _floats(table["sd"]))

    def cramer_rao(self, noise: float, *, exact: bool = False) -> np.ndarray:
        """Return the smallest standard deviations that unbiased estimates can have (the
        Cramér-Rao bound), NaN where the data do not determine the parameter."""
        key = "cramer_rao_exact" if exact else "cramer_rao"
        return noise * _floats(_printed()[self.model][key])

    @property
    def blank(self) -> dd.Problem:
        """The problem without values of the learned parameters: they are NaN, and
        `fit` draws its own start values."""
        return self.at(np.full(len(self.names), np.nan))

    @property
    def bounds(self) -> dict[str, dd.Parameter | dd.Fixed]:
        """Bounds that a scientist might know beforehand: parameters of the equation up
        to a factor of ten, with their signs; those of the history up to ten times the
        true size, with either sign."""
        known = dd.parameter_values(self.true)
        settings: dict[str, dd.Parameter | dd.Fixed] = {
            n: dd.Fixed() for n in self.fixed
        }
        for name in self.names.values():
            size = abs(known[name])
            if name.split("[")[0] in ("A", "omega", "a", "b"):
                limit = 10 * size or 1.0
                settings[name] = dd.Parameter(lower=-limit, upper=limit)
            elif name != "tau":
                ends = sorted((known[name] / 10, known[name] * 10))
                settings[name] = dd.Parameter(lower=ends[0], upper=ends[1])
        return settings


def _floats(values: list[float | None]) -> np.ndarray:
    """Return an array of numbers, with NaN for None."""
    return np.array(values, dtype=float)


def _same(*names: str) -> Mapping[str, str]:
    """Return names that the paper and this package share."""
    return MappingProxyType({name: name for name in names})


_CELLS = {"T*": "$T^*(t)$", "V_I": "$V_I(t)$", "V_NI": "$V_{NI}(t)$"}
_CELL_NAMES = {
    f"{letter}[{cell}]": f"{letter}[{index}]"
    for letter in ("A", "omega", "b")
    for index, cell in enumerate(_CELLS)
}

Experiment = PaperExperiment  # its first name

_ALL_EXPERIMENTS = (
    PaperExperiment(
        "exponential",
        "Delay exponential decay",
        true=dd.Problem(dd.models.Exponential(-2.0, -2.0), dd.Affine(1.5, 4.0), 1.0),
        start=dd.Problem(dd.models.Exponential(-1.5, -2.5), dd.Affine(2.25, 2.8), 2.0),
        T=10.0,
        steps_per_delay=10,
        names=_same("theta_0", "theta_1", "tau", "a", "b"),
    ),
    PaperExperiment(
        "logistic",
        "Delay logistic",
        true=dd.Problem(dd.models.Logistic(2.0, 1.5), dd.Periodic(-0.5, 3.0, 2.0), 1.0),
        start=dd.Problem(
            dd.models.Logistic(1.0, 1.0), dd.Periodic(-0.25, 6.0, 2.6), 0.5
        ),
        T=10.0,
        steps_per_delay=10,
        names=_same("theta_0", "theta_1", "tau", "A", "omega", "b"),
    ),
    PaperExperiment(
        "enso",
        "El Niño / Southern Oscillation",
        true=dd.Problem(
            dd.models.ENSO(1.0, 1.0, 0.75), dd.Periodic(-0.25, 1.0, 1.5), 5.0
        ),
        start=dd.Problem(
            dd.models.ENSO(1.5, 0.8, 1.2), dd.Periodic(-0.3, 0.8, 1.95), 6.0
        ),
        T=10.0,
        steps_per_delay=50,
        names=_same("theta_0", "theta_1", "theta_2", "tau", "A", "omega", "b"),
    ),
    PaperExperiment(
        "cheyne",
        "Cheyne-Stokes respiration",
        true=dd.Problem(dd.models.Cheyne(1.0, 7.0, 2.0), dd.Affine(-5.0, 2.0), 0.25),
        start=dd.Problem(dd.models.Cheyne(2.0, 12.0, 1.5), dd.Affine(0.0, 2.0), 0.5),
        T=3.0,
        steps_per_delay=10,
        names=_same("p", "V_0", "alpha", "tau", "a", "b"),
        starts_at_data=True,
    ),
    PaperExperiment(
        "hiv",
        "HIV",
        true=dd.Problem(
            dd.models.HIV(), dd.Periodic([1, 3, 0], [1, 3, 0], [10, 8, 0]), 1.0
        ),
        start=dd.Problem(
            dd.models.HIV(), dd.Periodic([1, 1, 1], [1.2, 3.6, 0], [10, 8, 0]), 0.25
        ),
        T=10.0,
        steps_per_delay=10,
        names=MappingProxyType({"tau": "tau", **_CELL_NAMES}),
        components=MappingProxyType(_CELLS),
        fixed=("k", "m", "delta", "c", "T_0", "n_p", "N"),
        starts_at_data=True,
    ),
)
EXPERIMENTS: Mapping[str, PaperExperiment] = MappingProxyType(
    {each.model: each for each in _ALL_EXPERIMENTS}
)


@final
class PublishedAdam(dd.AbstractOptimizer):
    """Adam with the published code's rule for delays.

    A delay that falls below `shortest` is set to `shortest` and is not learned any
    more. (The published code assigns the limit to a variable that its optimiser does
    not have.) The delay is the last of the free parameters."""

    rate: dd.Cosine = eqx.field(static=True)
    shortest: float = eqx.field(static=True)
    elementwise: ClassVar[bool] = True

    def transformation(self, epochs: int) -> Any:
        import optax

        adam: Any = dd.Adam(self.rate).transformation(epochs)

        def update(updates: Any, state: Any, params: Any = None) -> Any:
            step, state = adam.update(updates, state, params)
            is_delay = np.arange(params.shape[0]) == params.shape[0] - 1
            room = jnp.where(is_delay, params - self.shortest, jnp.inf)
            # A rounding error must not release a delay that is at the limit.
            return jnp.where(room > 1e-12, jnp.maximum(step, -room), 0.0), state

        return optax.GradientTransformation(adam.init, update)


@final
@dataclass(frozen=True)
class Settings:
    """The settings of gradient descent for one model.

    - `cost`, `gradient`: the running cost of the loss, and the route to its gradient.
    - `rate`, `epochs`: the first learning rate of Adam, and the number of its steps.
    - `threshold`: a fit ends early when its loss falls below this value.
    - `shortest_delay`: see `PublishedAdam`."""

    cost: dd.AbstractCost
    rate: float
    gradient: dd.AbstractGradient
    epochs: int = 500
    threshold: float = 0.01
    shortest_delay: float = 0.01


@final
@dataclass(frozen=True)
class Protocol:
    """A way to learn the parameters of all models.

    `settings` hold for every model but HIV, which has its own. A protocol without
    settings is `dd.fit`'s default method, on data from the exact solution."""

    name: str
    about: str
    settings: Settings | None = None
    hiv: Settings | None = None

    @property
    def is_ours(self) -> bool:
        """Whether the protocol is `dd.fit`'s default, and not the paper's method."""
        return self.settings is None

    def settings_for(self, model: str) -> Settings:
        """Return the settings of gradient descent for a model."""
        settings = self.hiv if model == "hiv" else self.settings
        assert settings is not None
        return settings


_ALL_PROTOCOLS = (
    Protocol(
        "published",
        "what produced the printed tables: L1, rate 0.03 (HIV 0.1), and the "
        "gradient as printed",
        Settings(dd.L1(), 0.03, dd.Published()),
        hiv=Settings(dd.L1(), 0.1, dd.Published()),
    ),
    Protocol(
        "stated",
        "what the text says: L2 (HIV L1), rate 0.03, and the gradient as printed",
        Settings(dd.L2(), 0.03, dd.Published()),
        hiv=Settings(dd.L1(), 0.03, dd.Published()),
    ),
    Protocol(
        "corrected",
        "as published, with the right gradient for the delay",
        Settings(dd.L1(), 0.03, dd.Adjoint()),
        hiv=Settings(dd.L1(), 0.1, dd.Adjoint()),
    ),
    Protocol(
        "best",
        "least squares as `dd.fit` does it, without start values, on data from "
        "the exact solution; the equation's parameters bounded within a factor "
        "of 10, the history's within 10 times their size",
    ),
)
PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(
    {each.name: each for each in _ALL_PROTOCOLS}
)
