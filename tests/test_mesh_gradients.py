"""Random problems on a mesh: forward mode, reverse mode and least squares differentiate
the same map, and central differences agree."""

import numpy as np
import pytest

import ddefind as dd
from support.least_squares_problems import residual_rows, setup_of
from support.mesh_problems import Structure, derivatives, random_case, reach

# Of every structure, and of the one that is tested always.
CASES, ALWAYS = 47, 64
EULER, RK2, RK4 = dd.Euler(), dd.RK2(), dd.RK4()


def structures():
    """Eight for each number of delays."""
    for k in (1, 2, 3, 4):
        d = [1 + (2 + k + j) % 3 for j in range(8)]
        same = k > 1
        formulas = min(1, k - same)
        yield Structure(k, d[0])
        yield Structure(k, d[1], jump=True, switches=1, formulas=1, overlaps=True)
        yield Structure(k, d[2], switches=2, known=1, same=same, overlaps=True)
        yield Structure(k, d[3], jump=True, formulas=formulas, same=same)
        yield Structure(k, d[4], RK2, switches=1, known=1, overlaps=True)
        yield Structure(k, d[5], RK2, True, switches=1, formulas=formulas, same=same)
        yield Structure(k, d[6], EULER, switches=1)
        yield Structure(k, d[7], EULER, True, 2, known=1, formulas=1, overlaps=True)


STRUCTURES = dict(enumerate(structures()))
# Two delays with everything.
EVERYTHING = 9


@pytest.mark.slow
@pytest.mark.parametrize("number", STRUCTURES)
def test_derivatives(number):
    structure = STRUCTURES[number]
    count = ALWAYS if number == EVERYTHING else CASES
    cases = [random_case(structure, 100_000 * number + i) for i in range(count)]
    compared = 0
    for case, found in zip(cases, derivatives(structure, cases)):
        states, forward, squares = found.states, found.forward, found.squares
        size = np.abs(forward).max()
        assert np.all(np.isfinite(states)) and size > 0
        np.testing.assert_allclose(squares[..., 0], states, rtol=0, atol=1e-11)
        np.testing.assert_allclose(squares[..., 1:], forward, rtol=0, atol=1e-10 * size)
        expected = np.einsum("cti,tip->cp", case.cotangents, forward)
        np.testing.assert_allclose(
            found.reverse, expected, rtol=0, atol=1e-11 * np.abs(expected).max()
        )
        if reach(structure, case) > 1.5:
            compared += 1
            np.testing.assert_allclose(
                found.differences, forward, rtol=0, atol=1e-7 * size
            )
    assert compared > CASES / 3


def test_the_cases_are_of_every_kind():
    """Delays beyond the record and shorter than a step, switches that are negative,
    beyond the record and equal to a delay, delays equal to others or to half."""
    structure, seen = STRUCTURES[EVERYTHING], set()
    for i in range(ALWAYS):
        case = random_case(structure, 100_000 * EVERYTHING + i)
        part, mesh = structure.split(case.theta), case.mesh
        delays, T = part["delays"], float(mesh.T)
        plain = delays[structure.formulas :]
        kinds = {
            "beyond": np.any(plain > T),
            "short": np.any(plain < float(mesh.tail)),
            "equal": len(np.unique(delays)) < len(delays),
            "half": np.any(delays[:, None] == 2 * delays),
            "negative": np.any(part["moving"] < 0),
            "late": np.any(part["moving"] > T),
            "at a delay": np.any(part["moving"][:, None] == delays),
        }
        seen |= {kind for kind, is_so in kinds.items() if is_so}
    assert len(seen) == 7


def test_a_text_with_everything():
    """`Discrete` and least squares, with all that a text can have."""
    text = """x' = r * x * (1 - x(t - tau) / K) - c * x(t - 2 * tau) * (t > t_on)
    x(0) = dose
    x(t<=0) = K / 4 + m * t"""
    model = dd.equation(text, observe="seen = gain * x + t")
    values = dict(r=1.1, K=2.0, c=0.3, tau=0.7, t_on=1.9, dose=1.2, m=0.1, gain=1.3)
    problem = model.problem(values)
    t = np.sort(np.random.default_rng(1).uniform(0, 5, 23))
    x = 1 + np.sin(t)
    x[4] = np.nan
    data = dd.Data(t, x, sd=np.linspace(0.5, 2.0, 23))
    loss, gradient = dd.value_and_grad(problem, data, max_step=data.T / 120)
    setup = setup_of(problem, data, model.settings)
    names = setup.model.free.names
    residual, jacobian = residual_rows(setup, setup.points(), 120)(
        np.array([values[name] for name in names])
    )
    np.testing.assert_allclose(residual @ residual, loss, rtol=1e-12)
    by_name = 2 * residual @ jacobian
    # A name in several places is one parameter.
    expected = dict.fromkeys(names, 0.0)
    for name, value in dd.parameter_values(gradient).items():
        expected[name.split(".")[-1]] += value
    np.testing.assert_allclose(by_name, [expected[name] for name in names], rtol=1e-10)
