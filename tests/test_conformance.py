"""The solvers on published problems: DDETST, RADAR5's examples, and others."""

import json
from typing import Any, NamedTuple

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


# Published problems with one constant delay. Reference values have 10 or more digits
# (Mackey-Glass: 7, as it is chaotic). Exact solutions and sources:
# - linear-unit-delay: y(t) = sum_k (-1)^k (t - k + 1)^k / k!, deSolve's `dede`;
# - delayed-growth: e^{0.1 t} and the like sum, the R package dde;
# - cobweb (fixed point 15/13), DDEINT benchmarks; sine: y = sin t, dde_solver;
# - delayed-logistic, DelayDiffEq.jl; cardiovascular, MATLAB's ddex2 (Ottesen);
# - Mackey-Glass, Shampine, Gladwell and Thompson, example 4.4.2.


class Known(NamedTuple):
    problem: dd.Problem
    n: int
    values: dict  # time: state
    tolerance: float = 1e-8


def cardiovascular():
    ca, cv, r, stroke, alpha_h, beta_h = 1.55, 519.0, 0.068, 67.9, 0.84, 1.17

    def rhs(x, y, tau, t):
        pa, pv, rate = x
        R = jnp.where(t <= 600, 1.05, 0.21 * jnp.exp(jnp.minimum(600 - t, 0.0)) + 0.84)
        ts, tp = 1 / (1 + (y[0] / 93) ** 7), 1 / (1 + (93 / pa) ** 7)
        return jnp.stack(
            [
                -pa / (ca * R) + pv / (ca * R) + stroke * rate / ca,
                pa / (cv * R) - (1 / (cv * R) + 1 / (cv * r)) * pv,
                alpha_h * ts - beta_h * tp,
            ]
        )

    R = 1.05
    past = [93.0, 93 / (1 + R / r), 93 / (R * stroke) / (1 + r / R)]
    return dd.Problem(rhs, dd.Constant(past), 4.0)


DECAY = dd.models.Exponential(0.0, -1.0)
KNOWN = {
    "linear-unit-delay": Known(
        dd.Problem(DECAY, dd.Constant(1.0), 1.0),
        100,
        {
            0.5: [0.49999999999999994],
            1.5: [-0.37500000000000006],
            2.5: [-0.39583333333333337],
            5.5: [0.04351128472222224],
            10.5: [-0.00485238401098894],
            20.5: [-0.0011581283209638085],
            30: [-6.140796840334653e-05],
        },
    ),
    "delayed-growth": Known(
        dd.Problem(
            lambda x, y, tau, t: 0.1 * jnp.stack([x[0], y[1]]),
            dd.Constant([0.1, 0.1]),
            2.0,
        ),
        20,
        {
            1: [0.11051709180756476, 0.11],
            3: [0.1349858807576003, 0.13049999999999998],
            7: [0.2013752707470476, 0.18295041666666664],
            13: [0.36692966676192446, 0.3036765595853174],
            19.9: [0.7315533762309565, 0.5438770959966472],
        },
    ),
    "cobweb": Known(
        dd.Problem(
            lambda x, y, tau, t: jnp.stack(
                [1.2 * (-0.5 * x[0] + 1.5 - 0.8 * y[1]), 0.6 * (x[0] - x[1])]
            ),
            dd.Constant([0.4, 0.4]),
            1.5,
        ),
        40,
        {
            10: [1.2444021261412277, 1.0604127937193055],
            50: [1.1534222933953593, 1.1537645243997035],
            200: [1.153846153846172, 1.153846153846147],
        },
    ),
    "sine": Known(
        dd.Problem(DECAY, dd.Periodic(1.0, 1.0, 0.0), np.pi / 2),
        100,
        {t: [np.sin(t)] for t in (1.0, 3.0, 5.0, 2.5 * np.pi)},
    ),
    "delayed-logistic": Known(
        dd.Problem(dd.models.Logistic(0.3, 1.0), dd.Constant(0.1), 1.0),
        20,
        {12: [0.8840629034722358], 50: [0.9999999987048602]},
    ),
    "cardiovascular": Known(
        cardiovascular(),
        600,
        {
            4: [83.36797419121628, 5.612567913952652, 1.1191819509026113],
            100: [90.01817795103746, 5.4261538332104635, 1.0869004472893034],
            300: [82.76922268991149, 5.418222827540599, 0.9480616613296725],
            350: [81.60853748319626, 5.419721601603178, 0.918595179576996],
            600: [108.79266963444542, 5.399845810095943, 1.345239904299043],
            610: [107.15896481922883, 5.667826304183233, 1.6960405914629186],
            1000: [88.62472153358024, 6.642900532208759, 1.4367582654295827],
        },
    ),
    "mackey-glass": Known(
        dd.Problem(
            lambda x, y, tau, t: 2 * y / (1 + y**9.65) - x, dd.Constant(0.5), 2.0
        ),
        200,
        {
            2: [0.9312574584025657],
            10: [1.122956757344157],
            20: [1.0546984439520648],
            50: [1.2131264751391586],
        },
        tolerance=1e-5,
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_rk4_reaches_the_known_values(name):
    problem, n, values, tolerance = KNOWN[name]
    times = np.array(list(values), float)
    found = dd.solve(problem, times[-1], dd.RK4(), n)(times)
    np.testing.assert_allclose(found, list(values.values()), rtol=tolerance, atol=0)
