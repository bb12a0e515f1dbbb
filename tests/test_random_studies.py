"""Random studies: experiments with inputs, doses, counts and values below limits, and
how far the derivatives of their likelihood are from differences."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._fitting.read_tasks import joined, labels_of, with_noise_of
from ddefind._search.make_setup import make_study_setup
from ddefind._search.normal_equations import normal_equations, work_buffer
from ddefind._search.setup import FitSetup

_T, _STEPS, _COUNT = 8.0, 40, 15


@final
@dataclass(frozen=True)
class Structure:
    """What the studies of one compiled program have in common: the text, how an input
    goes on between its knots, the doses of each experiment, and the noise."""

    text: str
    true: dict[str, float]
    noise: Any = None
    kind: Any = None
    doses: Callable[[np.random.Generator], list] = lambda random: []
    observe: str | None = None
    limit: float | None = None


def _bolus(random: np.random.Generator) -> list:
    return [dd.Dose("x", random.uniform(1, 3), random.uniform(1, 6))]


def _learned(random: np.random.Generator) -> list:
    return [dd.Dose("x", "D", random.uniform(1, 3), every=2.1, count=2)]


def _infusion(random: np.random.Generator) -> list:
    begin = random.uniform(1, 3)
    return [dd.Dose("x", random.uniform(1, 3), begin, duration=random.uniform(1, 2))]


def _set(random: np.random.Generator) -> list:
    return [dd.SetState("x", random.uniform(1, 3), random.uniform(2, 5))]


_PLAIN = "x' = s - k * x(t - tau)"
_DRIVEN = "x' = s + a * u(t - lag) - k * x(t - tau)"
_BASE = {"s": 3.0, "k": 0.5, "tau": 0.9}
_INPUT = {**_BASE, "a": 0.8, "lag": 0.6}
_SCALE = "y = scale * x + offset"
_SCALED = {**_INPUT, "scale": 2.0, "offset": 1.0}
STRUCTURES = {
    "counts": Structure(_PLAIN, _BASE, "poisson", limit=3.0),
    "dose": Structure(_PLAIN, _BASE, "lognormal", doses=_bolus, limit=3.0),
    "learned dose": Structure(
        _PLAIN, {**_BASE, "D": 2.0}, "negative-binomial", doses=_learned
    ),
    "input": Structure(_DRIVEN, _INPUT, "proportional", "linear"),
    "steps and infusion": Structure(_DRIVEN, _INPUT, "student", "steps", _infusion),
    "smooth input, limits": Structure(
        _DRIVEN, _INPUT, "combined", "cubic", _bolus, limit=3.0
    ),
    "state set": Structure(_PLAIN, _BASE, "gaussian", doses=_set, limit=3.0),
    "scale": Structure(_DRIVEN, _SCALED, None, "linear", _bolus, _SCALE),
}


def _experiments(structure: Structure, random: np.random.Generator) -> list:
    model = dd.equation(
        structure.text,
        inputs=("u",) if structure.kind else (),
        observe=structure.observe,
    )
    found = []
    for label in ("one", "two"):
        doses, inputs = structure.doses(random), None
        if structure.kind:
            times = np.sort(random.uniform(-3, _T, 9))
            times[0], times[-1] = -4.0, _T + 1
            inputs = {"u": dd.Input(times, random.uniform(1, 2, 9), structure.kind)}
        own = model if inputs is None else model.with_inputs(inputs)
        own = own.with_doses(doses) if doses else own
        problem = own.problem({**structure.true, "b": random.uniform(3, 6)})
        t = np.sort(random.uniform(0.05, _T, _COUNT))
        x = np.asarray(dd.solve(problem, T=_T)(t))[:, 0]
        x = 2 * x + 1 if structure.observe else x
        x = np.maximum(x * np.exp(0.2 * random.normal(size=_COUNT)), 0.3)
        is_count = structure.noise in ("poisson", "negative-binomial")
        x = np.round(x) if is_count else x
        below = None if structure.limit is None else x < structure.limit
        x = x if structure.limit is None else np.maximum(x, structure.limit)
        data = dd.Data(t, x, names="y" if structure.observe else "x", below=below)
        found.append((dd.Experiment(data, inputs, doses, label=label), own))
    return found


def study_setup(structure: Structure, random: np.random.Generator) -> FitSetup:
    """The setup of a random study."""
    pairs = _experiments(structure, random)
    experiments, models = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    assert labels_of(experiments) == ("one", "two")
    alike, data = joined(experiments, [model.blank for model in models], models)
    problems = [with_noise_of(p, data, structure.noise) for p in alike]
    known = tuple(dict(each.values or {}) for each in experiments)
    settings: dict[str, Any] = {}
    for model in models:
        settings |= model.settings
    settings["k"] = dd.Parameter(per_experiment=True)
    return make_study_setup(problems, data, settings, known, dd.RK4(), 10)[0]


@eqx.filter_jit
def _value_and_gradient(model, points, base, theta, capacity: int):
    """S and half its gradient at each row of `theta`, with the steps of `base`."""
    steps = model.steps(base, _STEPS, 0.0, capacity)

    def one(row):
        memory = work_buffer(model, row, steps, capacity)
        return normal_equations(model, row, points, steps, memory)[0].gram[0]

    return jax.lax.map(one, theta)


def largest_error(structure: Structure, seed: int) -> float:
    """The largest relative difference of the gradient from central differences, at
    random values. Of several lengths of the difference the best counts for each value:
    where a node passes another, or a measurement, S has a kink."""
    random = np.random.default_rng(seed)
    setup = study_setup(structure, random)
    names = setup.model.free.names
    true = {**structure.true, "b": 4.0}
    known = [true.get(name.split("@")[0], np.nan) for name in names]
    base = np.where(np.isnan(known), np.nan_to_num(setup.guess, nan=1.0), known)
    base = base * np.exp(0.1 * random.normal(size=len(base)))
    points = jax.tree.map(jnp.asarray, setup.points())
    capacity = setup.model.engine.capacity(_STEPS, setup.data.T)
    lengths = (3e-5, 1e-5, 3e-6, 1e-6)
    moves = [side * h * np.diag(base) for h in lengths for side in (1, -1)]
    theta = np.concatenate([base[None], *(base + move for move in moves)])
    found = np.asarray(_value_and_gradient(setup.model, points, base, theta, capacity))
    gradient, S = found[0, 1:] * base, found[1:, 0].reshape(len(lengths), 2, -1)
    differences = (S[:, 0] - S[:, 1]) / (4 * np.array(lengths)[:, None])
    size = np.maximum(np.abs(gradient), 1e-2 * np.linalg.norm(gradient))
    return float(np.max(np.min(np.abs(differences - gradient) / size, axis=0)))


@pytest.mark.slow
@pytest.mark.parametrize("name", STRUCTURES)
def test_derivatives_of_many_studies(name):
    assert max(largest_error(STRUCTURES[name], 100 + s) for s in range(66)) < 1e-6
