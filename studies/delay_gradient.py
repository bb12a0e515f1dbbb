"""How wrong is the published gradient for the delay?

`python -m studies.delay_gradient` computes dL/dtau by every route and by central
differences, for the paper's models at its starts and at its mean estimates for noise
0.3, and writes the tables of `docs/explanation/the-correction.md`. It takes about a
minute. `tests/test_studies.py` computes some of the rows again.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import ddefind as dd
from ddefind.paper import EXPERIMENTS, Experiment

from .page_tables import DOCS, write_table

PAGE, NAME = DOCS / "explanation" / "the-correction.md", "delay gradient"
LOSS = dd.Integral(dd.L2(), nodes=4000)
STEPS = 16000  # on [0, T], at least
ROUTES = (dd.Published(), dd.Adjoint(), dd.Discrete())


class Row(NamedTuple):
    """dL/dtau by central differences (`truth`) and by each route; and the largest
    relative error of the published gradient for theta and phi (`others`)."""

    truth: float
    published: float
    adjoint: float
    discrete: float
    others: float

    @property
    def error(self) -> float:
        """The relative error of the published dL/dtau."""
        return abs(self.published - self.truth) / abs(self.truth)


def title(experiment: Experiment) -> str:
    """A model as the tables call it, such as `ENSO`."""
    return type(experiment.true.rhs).__name__


def points(experiment: Experiment) -> dict[str, dd.Problem]:
    """Where the gradient is computed: the paper's start, and its mean estimate for
    noise 0.3."""
    printed = experiment.published(0.3)
    assert printed is not None
    return {"start": experiment.start, "estimate": experiment.at(printed.mean)}


def measure(experiment: Experiment, problem: dd.Problem) -> Row:
    """dL/dtau at one point, for the paper's data without noise."""
    data = experiment.clean
    n = math.ceil(STEPS * float(problem.tau) / data.T)
    params, fixed = eqx.partition(problem, eqx.is_inexact_array)
    flat, unravel = ravel_pytree(params)
    centre = np.asarray(flat)

    def loss_and_gradient(vector: np.ndarray, route: dd.AbstractGradient):
        loss, gradient = dd.value_and_grad(
            eqx.combine(unravel(jnp.asarray(vector)), fixed),
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
        above, below = (
            loss_and_gradient(centre + sign * move, dd.Discrete())[0]
            for sign in (1, -1)
        )
        truth[e] = (above - below) / (2 * step)

    gradients = [loss_and_gradient(centre, route)[1] for route in ROUTES]
    is_tau = np.asarray(ravel_pytree(_mark_tau(params))[0], bool)
    arrays = eqx.filter(gradients[0], eqx.is_inexact_array)
    published = np.asarray(ravel_pytree(arrays)[0])
    others = _largest_error((published * size)[~is_tau], (truth * size)[~is_tau])
    published_tau, adjoint_tau, discrete_tau = (float(g.tau) for g in gradients)
    at_tau = float(truth[is_tau][0])
    return Row(at_tau, published_tau, adjoint_tau, discrete_tau, others)


def _mark_tau(params: dd.Problem) -> dd.Problem:
    """The shape of the parameters, with 1 at tau and 0 elsewhere."""
    zeros = jax.tree.map(jnp.zeros_like, params)
    return eqx.tree_at(lambda p: p.tau, zeros, jnp.ones(()))


def _largest_error(values: np.ndarray, expected: np.ndarray) -> float:
    """The largest relative error. Values below a thousandth of the largest one are
    compared with that thousandth."""
    scale = np.maximum(np.abs(expected), 1e-3 * np.max(np.abs(expected)))
    return float(np.max(np.abs(values - expected) / scale))


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
    """One line of a table."""
    percent = 100 * row.error
    error = f"{percent:.0f}%" if percent >= 10 else f"{percent:.1f}%"
    numbers = (row.truth, row.adjoint, row.discrete, row.published)
    cells = [model, *map(show, numbers), error, f"{row.others:.0e}"]
    return "| " + " | ".join(cells) + " |"


def tables() -> str:
    """Both tables of the page, each under its heading."""
    parts = []
    for heading, point in (
        ("At the paper's starts:", "start"),
        ("At its mean estimates for noise 0.3:", "estimate"),
    ):
        rows = []
        for experiment in EXPERIMENTS.values():
            row = measure(experiment, points(experiment)[point])
            rows.append(line(title(experiment), row))
            print(rows[-1], flush=True)
        parts.append(f"{heading}\n\n{HEADER}" + "\n".join(rows))
    return "\n\n".join(parts)


def main() -> None:
    # Markdown needs a blank line between a comment and a paragraph.
    write_table(PAGE, NAME, f"\n{tables()}\n")


if __name__ == "__main__":
    main()
