"""Measure dL/dtau by every route, and write the table of `the-correction.md`.

Run it as `python docs/make_correction.py`; it takes about a minute. The table stands
between two marker comments of the page, and `tests/test_correction_page.py` computes
some of its rows again.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import ddefind as dd
from ddefind.models import ENSO, HIV, Cheyne, Exponential, Logistic

PAGE = Path(__file__).with_name("the-correction.md")
BEGIN = "<!-- table: written by docs/make_correction.py -->"
END = "<!-- end of the table -->"

LOSS = dd.Integral(dd.L2(), nodes=4000)
STEPS = 16000  # on [0, T], at least
ROUTES = (dd.Published(), dd.Adjoint(), dd.Discrete())


@dataclass(frozen=True)
class Experiment:
    """The truth behind the data, with its T and steps per delay; where the paper's fits
    start; and where they end on average, at noise 0.3."""

    true: dd.Problem
    T: float
    n: int
    start: dd.Problem
    estimate: dd.Problem


EXPERIMENTS = {
    "Exponential": Experiment(
        dd.Problem(Exponential(-2, -2), dd.Affine(1.5, 4), tau=1),
        T=10.0,
        n=10,
        start=dd.Problem(Exponential(-1.5, -2.5), dd.Affine(2.25, 2.8), tau=2),
        estimate=dd.Problem(
            Exponential(-2.0454, -2.0243), dd.Affine(1.4339, 4.0001), tau=1.0104
        ),
    ),
    "Logistic": Experiment(
        dd.Problem(Logistic(2, 1.5), dd.Periodic(-0.5, 3, 2), tau=1),
        T=10.0,
        n=10,
        start=dd.Problem(Logistic(1, 1), dd.Periodic(-0.25, 6, 2.6), tau=0.5),
        estimate=dd.Problem(
            Logistic(1.9928, 1.5145), dd.Periodic(0.2911, 5.8176, 2.3938), tau=0.9998
        ),
    ),
    "ENSO": Experiment(
        dd.Problem(ENSO(1, 1, 0.75), dd.Periodic(-0.25, 1, 1.5), tau=5),
        T=10.0,
        n=50,
        start=dd.Problem(ENSO(1.5, 0.8, 1.2), dd.Periodic(-0.3, 0.8, 1.95), tau=6),
        estimate=dd.Problem(
            ENSO(1.1038, 1.2172, 0.8174),
            dd.Periodic(-0.6633, 0.9031, 1.4933),
            tau=5.2157,
        ),
    ),
    "Cheyne": Experiment(
        dd.Problem(Cheyne(1, 7, 2), dd.Affine(-5, 2), tau=0.25),
        T=3.0,
        n=10,
        start=dd.Problem(Cheyne(2, 12, 1.5), dd.Affine(0, 2), tau=0.5),
        estimate=dd.Problem(
            Cheyne(1.0114, 7.5973, 2.2845), dd.Affine(2.4795, 1.9236), tau=0.2474
        ),
    ),
    "HIV": Experiment(
        dd.Problem(HIV(), dd.Periodic([1, 3, 0], [1, 3, 0], [10, 8, 0]), tau=1),
        T=10.0,
        n=10,
        start=dd.Problem(
            HIV(), dd.Periodic([1, 1, 1], [1.2, 3.6, 0], [10, 8, 0]), tau=0.25
        ),
        estimate=dd.Problem(
            HIV(),
            dd.Periodic([1, 2.0083, 1], [1.2, 5.2569, 0], [9.9186, 7.5408, -0.0804]),
            tau=1.0011,
        ),
    ),
}


class Row(NamedTuple):
    """dL/dtau by central differences and by each route; and the published formula's
    largest relative error over theta and phi."""

    truth: float
    published: float
    adjoint: float
    discrete: float
    others: float

    @property
    def error(self) -> float:
        """The relative error of the published dL/dtau."""
        return abs(self.published - self.truth) / abs(self.truth)


def data_of(experiment: Experiment) -> dd.Data:
    """The paper's data without noise: RK2, with its own step."""
    solution = dd.solve(experiment.true, experiment.T, dd.RK2(), experiment.n)
    return dd.Data(solution.t, solution.x)


def measure(experiment: Experiment, problem: dd.Problem) -> Row:
    data = data_of(experiment)
    n = math.ceil(STEPS * float(problem.tau) / data.T)
    params, fixed = eqx.partition(problem, eqx.is_inexact_array)
    flat, unravel = ravel_pytree(params)
    centre = np.asarray(flat)

    def evaluate(vector, route):
        loss, gradient = dd.value_and_grad(
            eqx.combine(unravel(vector), fixed),
            data,
            loss=LOSS,
            gradient=route,
            solver=dd.RK4(),
            steps_per_delay=n,
        )
        return float(loss), gradient

    size = np.where(centre == 0, 1.0, np.abs(centre))
    truth = np.empty(centre.size)
    for e, step in enumerate(1e-5 * size):
        move = step * np.eye(centre.size)[e]
        above, below = (evaluate(centre + s * move, ROUTES[-1])[0] for s in (1, -1))
        truth[e] = (above - below) / (2 * step)

    found = [evaluate(centre, route)[1] for route in ROUTES]
    is_tau = np.asarray(ravel_pytree(_mark_tau(params))[0], bool)
    published = np.asarray(ravel_pytree(eqx.filter(found[0], eqx.is_inexact_array))[0])
    others = _largest_error((published * size)[~is_tau], (truth * size)[~is_tau])
    taus = [float(gradient.tau) for gradient in found]
    return Row(float(truth[is_tau][0]), *taus, others)


def _mark_tau(params: dd.Problem) -> dd.Problem:
    """The shape of the parameters, with 1 at tau and 0 elsewhere."""
    zeros = jax.tree.map(jnp.zeros_like, params)
    return eqx.tree_at(lambda p: p.tau, zeros, jnp.ones(()))


def _largest_error(found: np.ndarray, expected: np.ndarray) -> float:
    """Relative to each value, or to a thousandth of the largest where it is smaller."""
    scale = np.maximum(np.abs(expected), 1e-3 * np.max(np.abs(expected)))
    return float(np.max(np.abs(found - expected) / scale))


HEADER = """\
| model | central differences | `Adjoint` | `Discrete` | `Published` | its error | \
theta, phi |
|---|---:|---:|---:|---:|---:|---:|
"""


def show(value: float) -> str:
    """Three decimals, or four digits for small and large values."""
    if 0.1 <= abs(value) < 1e5:
        return f"{value:+.3f}"
    return f"{value:+.3e}"


def line(model: str, row: Row) -> str:
    """One line of the table."""
    percent = 100 * row.error
    error = f"{percent:.0f}%" if percent >= 10 else f"{percent:.1f}%"
    numbers = (row.truth, row.adjoint, row.discrete, row.published)
    cells = [model, *map(show, numbers), error, f"{row.others:.0e}"]
    return "| " + " | ".join(cells) + " |"


def table() -> str:
    parts = []
    for title, point in (
        ("At the paper's starts:", "start"),
        ("At its mean estimates for noise 0.3:", "estimate"),
    ):
        rows = []
        for model, experiment in EXPERIMENTS.items():
            rows.append(line(model, measure(experiment, getattr(experiment, point))))
            print(rows[-1], flush=True)
        parts.append(f"{title}\n\n{HEADER}" + "\n".join(rows))
    return "\n\n".join(parts)


def main() -> None:
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}")


if __name__ == "__main__":
    main()
