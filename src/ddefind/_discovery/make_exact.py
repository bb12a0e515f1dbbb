"""The program in which all structures of a library are fitted, with one kind of
history."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from .._data.data import Data
from .._data.smoothing import rough_noise
from .._data.study_data import Records
from .._least_squares.make_setup import make_setup
from .._least_squares.study_setup import make_study_setup
from .._problem.history import Affine, Constant, Smooth
from .._problem.parameters import Parameter
from .._problem.problem import Problem
from .._solve.runge_kutta import RK4
from .exact import Exact
from .inner_parameters import InnerParameters
from .library import Candidates, Library
from .terms import delay_names

# The number of curves of a smooth history.
_CURVES = 4


def make_exact(
    library: Library,
    inner: InnerParameters,
    data: Records,
    history: str,
    slots: int,
    bounds: tuple[float, float],
    term_charge: float,
) -> Exact:
    """The fits of one library to data, with delays between `bounds`."""
    d = len(library.states)
    zeros = np.zeros(d)
    if history == "constant":
        past: Any = Constant(zeros)
    elif isinstance(data, Data):
        # A straight line is a smooth curve that is not bent, by the same program.
        past = Smooth(zeros, zeros, np.zeros((_CURVES, d)), data.T / 3)
    else:
        past = Affine(zeros, zeros)
    rhs = Candidates(
        library.module,
        jnp.zeros(slots),
        jnp.zeros((slots, len(library.terms)), int),
        jnp.zeros((slots, d), int),
        library.fragile,
    )
    problem = Problem(rhs, past, library.tau)
    settings = {
        f"rhs.library.{name}": Parameter(lower=lower, upper=upper)
        for name, lower, upper in zip(inner.names, inner.lower, inner.upper)
    }
    names = ["tau"] if library.delays < 2 else delay_names(library.delays)
    prefix = "" if library.delays < 2 else "tau."
    has_fixed_delays = bounds[0] == bounds[1]
    low, high = bounds
    if has_fixed_delays:
        low, high = 0.999 * low, 1.001 * high
    settings |= {f"{prefix}{name}": Parameter(lower=low, upper=high) for name in names}
    how = RK4(), 10, 0, 1
    if isinstance(data, Data):
        setup, _ = make_setup(problem, data, settings, *how)
    else:
        problems = [problem] * len(data.parts)
        known = [{} for _ in data.parts]
        setup, _ = make_study_setup(problems, data, settings, known, *how)
    noise = rough_noise(data)
    points = setup.points(noise)
    about_data = setup, points, history, slots, noise
    return Exact(library, inner, *about_data, has_fixed_delays, term_charge)
