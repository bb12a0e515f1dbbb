"""Random problems with several delays, jumps and switches, and every derivative of
their solutions.

A `Structure` is what a program is compiled for. A `Case` is one problem of a structure:
its values, its mesh, whose step counts are held, and the times at which the solution is
read."""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ddefind as dd
from ddefind._engine.engine import Points, System
from ddefind._engine.mesh.engine import MeshEngine, solve_mesh
from ddefind._engine.mesh.march import movers_of
from ddefind._engine.mesh.mesh import BreakingPoints, Mesh, make_mesh, points_of
from ddefind._engine.mesh.sensitivity import MeshSensitivity
from ddefind._problem.delays import AbstractConstantDelay
from ddefind._util.arrays import write

from .vectors import size_of, split

TIMES = 12
# The steps of central differences: of the delays and switches, where the solution has
# few derivatives, and of all other values.
MOVING, RESTING = 2e-6, 1e-3


@final
class Formula(AbstractConstantDelay):
    """A delay with two parameters, a exp(b)."""

    a: jax.Array
    b: jax.Array

    def __call__(self):
        return self.a * jnp.exp(self.b)

    def describe(self):
        return f"{float(self.a):g} * exp({float(self.b):g})"


@final
class Rhs(eqx.Module):
    """An equation that asks for everything: x, every delayed state, tau, t, and the
    times of the switches."""

    decay: jax.Array  # [d]
    gains: jax.Array  # [k, d]
    drive: jax.Array
    doses: jax.Array  # [r, d]
    switches: jax.Array  # [r]

    def __call__(self, x, y, tau, t):
        slope = -self.decay * x + self.drive * jnp.sin(t + sum(tau))
        for gain, delayed in zip(self.gains, y):
            slope += gain * jnp.tanh(jnp.roll(delayed, 1)) + 0.1 * x * jnp.tanh(delayed)
        for dose, switch in zip(self.doses, self.switches):
            slope += jnp.where(t > switch, dose * (1 - 0.2 * x), 0.0)
        return slope


@final
class Past(eqx.Module):
    level: jax.Array  # [d]
    slope: jax.Array  # [d]

    def __call__(self, t):
        return self.level + 0.3 * jnp.sin(self.slope * t)


@final
@dataclass(frozen=True)
class Structure:
    """- `formulas`: how many of the k delays are formulas.
    - `known`: how many of the r switches are numbers, and no parameters.
    - `same`: whether the last delay is twice the first one."""

    k: int
    d: int
    solver: dd.AbstractSolver = dd.RK4()
    jump: bool = False
    switches: int = 0
    known: int = 0
    formulas: int = 0
    same: bool = False
    overlaps: bool = False

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The parameters in their order."""
        own = self.k - self.same
        shapes = dict(
            delays=(own,),
            exponents=(self.formulas,),
            moving=(self.switches - self.known,),
            decay=(self.d,),
            gains=(self.k, self.d),
            drive=(),
            doses=(self.switches, self.d),
            level=(self.d,),
            slope=(self.d,),
        )
        return shapes | (dict(initial=(self.d,)) if self.jump else {})

    def split(self, theta: Any) -> dict[str, Any]:
        return split(theta, self.shapes())

    @property
    def size(self) -> int:
        return size_of(self.shapes())

    @property
    def moving(self) -> np.ndarray:
        """Whether each value moves nodes."""
        return np.arange(self.size) < self.k - self.same + self.formulas + (
            self.switches - self.known
        )

    def problem(self, theta: Any, numbers: Any) -> dd.Problem:
        """The problem of the values `theta`, and of the switches that are `numbers`."""
        part = self.split(theta)
        own = self.k - self.same
        delays = [part["delays"][q] for q in range(own)]
        for q in range(self.formulas):
            delays[q] = Formula(delays[q], part["exponents"][q])
        if self.same:
            first = delays[0]() if self.formulas else delays[0]
            delays.append(2 * first)
        switches = jnp.concatenate([part["moving"], jax.lax.stop_gradient(numbers)])
        rhs = Rhs(part["decay"], part["gains"], part["drive"], part["doses"], switches)
        past = Past(part["level"], part["slope"])
        times = (lambda problem: problem.rhs.switches) if self.switches else ()
        return dd.Problem(
            rhs, past, tuple(delays), initial=part.get("initial"), switches=times
        )

    @cached_property
    def points(self) -> BreakingPoints:
        example = self.problem(jnp.ones(self.size), jnp.ones(self.known))
        return points_of(example, self.solver)


class Case(NamedTuple):
    theta: Any  # [p]
    numbers: Any
    mesh: Mesh
    times: Any
    cotangents: Any  # [2, TIMES, d]


def movers(structure: Structure, theta: Any, numbers: Any) -> Any:
    return movers_of(structure.problem(theta, numbers))


@cache
def _movers_and_slopes(structure: Structure):
    def both(theta, numbers):
        return movers(structure, theta, numbers), jax.jacfwd(
            lambda theta: movers(structure, theta, numbers)
        )(theta)

    return jax.jit(both)


def random_case(structure: Structure, seed: int, capacity: int = 256) -> Case:
    """A problem whose delays and switches are short and long, and near each other."""
    random = np.random.default_rng(seed)
    T = random.uniform(2.0, 6.0)
    theta = random.normal(size=structure.size) * 0.7
    part = structure.split(theta)
    # From a step, or less, to more than the record, and others equal to their sums.
    shortest = 0.002 if structure.overlaps else 0.1
    part["delays"][:] = T * np.exp(
        random.uniform(np.log(shortest), np.log(1.3), part["delays"].shape)
    )
    own = len(part["delays"])
    if own > 1 and random.random() < 0.4:
        part["delays"][-1] = part["delays"][0] * random.choice([1, 2, 0.5])
        part["delays"][-1] *= 1 + random.choice([0.0, 1e-4, -1e-3, 0.05])
    part["exponents"][:] *= 0.3
    part["decay"][:] = random.uniform(0.3, 1.5, part["decay"].shape)
    numbers = random.uniform(-0.3, 1.3, structure.known) * T
    part["moving"][:] = random.uniform(-0.3, 1.3, part["moving"].shape) * T
    if structure.switches > structure.known and random.random() < 0.3:
        part["moving"][0] = part["delays"][0]
    at = np.asarray(_movers_and_slopes(structure)(theta, numbers)[0])
    delays = at[: structure.k]
    rows = random.uniform(15, 40)
    step = T / rows
    if not structure.overlaps:
        step = min(step, delays.min() / 2.5)
    mesh = make_mesh(structure.points, at, T, step, capacity, structure.overlaps)
    times = np.sort(random.uniform(0, T, TIMES))
    times[[0, -1]] = 0.0, T
    cotangents = random.normal(size=(2, TIMES, structure.d))
    return Case(theta, numbers, mesh, times, cotangents)


def reach(structure: Structure, case: Case) -> float:
    """How far the nearest coincidence is, in units of what central differences reach:
    of two breaking points that do not move alike, or of one at which x' jumps with a
    time at which the solution is read."""
    w, slopes = map(np.asarray, _movers_and_slopes(structure)(case.theta, case.numbers))
    points = structure.points
    values = points.matrix @ w
    moves = points.matrix @ slopes * steps(structure)
    speed = np.abs(moves).max(axis=1)
    moves = np.where((values < -10 * speed)[:, None], 0.0, moves)
    values = np.maximum(values, 0.0)
    # The steps before the end of the record follow from the next point behind it.
    T = float(case.mesh.T)
    behind = np.min(values[values >= T], initial=np.inf)
    distance = np.inf
    for i in np.flatnonzero(values <= behind + 10 * speed):
        apart = np.abs(moves - moves[i]).max(axis=1)
        other = apart > 1e-12
        gaps = np.abs(values - values[i])[other] / (2 * apart[other])
        distance = min(distance, np.min(gaps, initial=np.inf))
        if points.doubled[i] and np.abs(moves[i]).max() > 0:
            gap = np.abs(np.asarray(case.times) - values[i]).min()
            distance = min(distance, gap / (2 * speed[i]))
    return float(distance)


def steps(structure: Structure) -> np.ndarray:
    return np.where(structure.moving, MOVING, RESTING)


def _weights(structure: Structure) -> np.ndarray:
    """The weights of central differences at -2, -1, 1 and 2 steps, [4, p].

    They are of the fourth order but for the delays and switches, in which a solution is
    only C1: its second derivative jumps where a delayed time passes a node. There they
    are exact for a jump in the middle (for d |d|, beside d)."""
    smooth, kinked = np.array([1, -8, 8, -1]) / 12, np.array([0.25, -1, 1, -0.25])
    return np.where(structure.moving, kinked[:, None], smooth[:, None])


@final
@dataclass(frozen=True)
class Derivatives:
    """The states at the times of a case [TIMES, d], and their derivatives: `forward`
    and `differences` [TIMES, d, p], and `reverse` [2, p], for the cotangents; `squares`
    [TIMES, d, 1 + p] are states and derivatives of least squares."""

    states: np.ndarray
    forward: np.ndarray
    squares: np.ndarray
    differences: np.ndarray
    reverse: np.ndarray


def _states(structure: Structure, case: Case, theta: Any, mode: str):
    path = solve_mesh(
        structure.problem(theta, case.numbers), structure.solver, case.mesh, mode
    )
    return jax.vmap(path)(case.times)


def _squares(structure: Structure, case: Case):
    def join(theta):
        return eqx.filter(structure.problem(theta, case.numbers), eqx.is_inexact_array)

    fixed = eqx.filter(
        structure.problem(case.theta, case.numbers), eqx.is_inexact_array, inverse=True
    )
    mesh = case.mesh
    engine = MeshEngine(structure.solver, mesh.points, mesh.T, mesh.overlaps)
    system = System(fixed, engine, mesh, mesh.T, structure.d)
    pure = structure.k - structure.same + structure.formulas
    direct = tuple(range(pure, structure.size))
    sensitivity = MeshSensitivity(system, join, case.theta, mesh, direct)
    points = Points(case.times, case.times, case.times)
    rows = jnp.zeros((TIMES, structure.d, 1 + structure.size))
    # What memory holds before does not matter.
    memory = jax.tree.map(
        lambda a: jnp.full_like(a, jnp.nan), sensitivity.memory(mesh.capacity)
    )
    return sensitivity.visit(points, (0, len(points.times)), memory, write, rows)[0]


@cache
def _program(structure: Structure):
    def one(case: Case):
        def forward(theta):
            return _states(structure, case, theta, "forward")

        jacobian = jax.jacfwd(forward)(case.theta)
        _, pull = jax.vjp(
            lambda theta: _states(structure, case, theta, "reverse"), case.theta
        )
        reverse = jax.lax.map(lambda cotangent: pull(cotangent)[0], case.cotangents)
        moves = jnp.asarray([-2, -1, 1, 2])[:, None, None] * jnp.diag(steps(structure))
        moved = (case.theta + moves).reshape(-1, case.theta.shape[0])
        states = jax.lax.map(forward, jnp.concatenate([case.theta[None], moved]))
        return states, jacobian, _squares(structure, case), reverse

    # Most of the time of a test is spent compiling.
    options = {"xla_backend_optimization_level": 0}
    return jax.jit(lambda cases: jax.lax.map(one, cases), compiler_options=options)


def derivatives(structure: Structure, cases: list[Case]) -> list[Derivatives]:
    """All derivatives of cases of one structure."""
    stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *cases)
    found = jax.tree.map(np.asarray, _program(structure)(stacked))
    results = []
    for states, forward, squares, reverse in zip(*found):
        moved = states[1:].reshape(4, structure.size, *states.shape[1:])
        states = states[0]
        differences = np.einsum("np,npti->tip", _weights(structure), moved)
        differences /= steps(structure)
        results.append(Derivatives(states, forward, squares, differences, reverse))
    return results
