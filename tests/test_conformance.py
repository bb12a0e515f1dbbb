"""The solvers on published problems: DDETST, RADAR5's examples, and others."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from studies.conformance import tables
from studies.page_tables import read_table

import ddefind as dd
from support.collocation import reference
from support.delay_problems import ALL, NEUTRAL, RETARDED, STIFF
from support.delay_problems.radar5 import robertson
from support.repeats import mostly_slow

# Those that the usual run solves: one of each kind.
_USUAL = ("A2", "B1", "C1", "D1", "E1", "F1", "G2", "H3", "Robertson", "maturation")


def test_the_collections_are_complete():
    assert list(RETARDED) == "A1 A2 B1 B2 C1 C2 C3 C4 D1 D2".split()
    assert list(NEUTRAL) == "E1 E2 F1 F2 F3 F4 F5 G1 G2 H1 H2 H3 H4".split()
    assert list(STIFF) == ["Waltman", "Oregonator", "Robertson"]
    for known in ALL.values():
        assert known.values or known.exact
        assert known.states().shape == (len(known.times()), known.problem.dimension)


@pytest.mark.parametrize("name", mostly_slow(ALL, _USUAL))
def test_solutions_reach_their_goals(name):
    known = ALL[name]
    solution = dd.solve(known.problem, known.T, known.solver(1e-8))
    assert known.error(solution(known.times())) <= known.goal


@pytest.mark.parametrize(
    "name",
    mostly_slow(["A2", "C2", "D1", "F3", "H2", "Prothero-Robinson"], ("A2", "H2")),
)
def test_the_error_follows_the_tolerance(name):
    known = ALL[name]
    errors = [
        known.error(dd.solve(known.problem, known.T, known.solver(rtol))(known.times()))
        for rtol in (1e-5, 1e-8)
    ]
    assert errors[1] < errors[0] / 50


# What the reference needs to know beside the problem: kinks of |x|, and sizes below
# which a component counts as small.
_KINKS = {"C1": lambda t, x, y: x, "C2": lambda t, x, y: jnp.stack([x[0], y[0, 0]])}
_SMALL = {
    "Waltman": [1e-9, 1e-15, 1e-15, 1e-12, 1e-6, 1e-6],
    "Oregonator": [1e-10, 1e-8],
    "Robertson": [1e-3, 1e-9, 1e-3],
}


@pytest.mark.parametrize(
    "name",
    mostly_slow(
        [n for n in ALL if ALL[n].values] + ["D1", "F2", "H2", "Paul", "maturation"],
        always=("D1", "E2"),
    ),
)
def test_known_values_are_those_of_collocation(name):
    known = ALL[name]
    first = 1e-6 if name in _SMALL else 1e-3
    about: Any = {"floor": _SMALL.get(name, 1e-3), "kinks": _KINKS.get(name)}
    about["switches"] = [time for time in known.problem.switch_times if time > 0]
    found = reference(known.problem, known.T, 1e-10, first=first, **about)
    assert known.error(found(known.times())) < 1e-10


@pytest.mark.slow
def test_derivatives_of_a_stiff_equation_over_twelve_decades():
    """Robertson's equation up to 1e10, for its rates and its delay, in proportion."""
    known = ALL["Robertson"]
    at, times = np.array([0.04, 1e4, 3e7, 0.01]), known.times()

    def states(factors):
        problem = robertson(*(at * factors))
        solution = dd.solve(problem, known.T, dd.Radau(1e-6), differentiate="forward")
        return solution(times)

    def tight(factors):
        problem = robertson(*(at * factors))
        floor = _SMALL["Robertson"]
        return reference(problem, known.T, 1e-10, floor=floor, first=1e-6)(times)

    found = np.asarray(jax.jacfwd(states)(jnp.ones(4)))
    for n, move in enumerate(1e-4 * np.eye(4)):
        expected = (tight(1 + move) - tight(1 - move)) / 2e-4
        size = np.abs(expected).max(axis=0)
        assert np.abs((found[..., n] - expected) / size).max() < 1e-3


def test_the_page_has_the_tables_that_were_measured():
    results = json.loads(tables.FILE.read_text("utf-8"))
    assert [row["name"] for row in results["solutions"]] == list(ALL)
    for name, table in tables.tables(results).items():
        assert read_table(tables.PAGE, name) == table
