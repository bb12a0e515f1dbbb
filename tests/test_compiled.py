"""The loops become machine code: one kernel, no copies. Without XLA's setting all is
right, only slower."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import ddefind as dd
from ddefind._engine.aligned.engine import AlignedEngine
from ddefind._engine.choose import engine_for
from ddefind._engine.engine import System
from ddefind._engine.mesh.engine import MeshEngine
from ddefind._loss.gradients import loss_and_gradient
from ddefind._search.normal_equations import normal_equations
from ddefind.paper import EXPERIMENTS
from support.command import python
from support.gradients import gradients_of, grid_for
from support.least_squares_problems import setup_of
from support.vectors import flatten

pytestmark = pytest.mark.usefixtures("without_cache")
TAU_MIN = 0.2


def computations(text):
    """The text of each computation by name, and the name of the entry."""
    found, entry, name = {}, None, None
    for line in text.splitlines():
        head = re.match(r"(ENTRY )?%([\w.\-]+) \(.*\{$", line)
        if head:
            name = head[2]
            entry = name if head[1] else entry
            found[name] = []
        elif name:
            found[name].append(line)
    return found, entry


def copies_in_loops(text, rows):
    """Copies of at least `rows` rows in a loop's body, or in what it calls."""
    found, _ = computations(text)
    waiting = re.findall(r"body=%([\w.\-]+)", text)
    inside = set()
    while waiting:
        name = waiting.pop()
        if name not in inside:
            inside.add(name)
            called = r"(?:calls|to_apply|body|condition)=%([\w.\-]+)"
            waiting += re.findall(called, "\n".join(found[name]))
    copy = re.compile(r"= \w+\[(\d+)[,\d]*\]\S* copy\(")
    lines = (line for name in inside for line in found[name])
    return [line for line in lines if (m := copy.search(line)) and int(m[1]) >= rows]


def is_machine_code(text):
    """Whether every loop is inside a call of a compiled kernel, a "small call"."""
    found, entry = computations(text)
    return "xla_cpu_small_call" in text and not any(
        " while(" in line for line in found[entry]
    )


def program(model, loss, solver, route):
    """The compiled text of a value and gradient, and its grid."""
    experiment, data = EXPERIMENTS[model], EXPERIMENTS[model].clean
    problem, n = experiment.start, experiment.steps_per_delay
    function = gradients_of(problem, data, loss, solver, n, TAU_MIN, route)
    text = function.lower(jnp.asarray(flatten(problem)[0])[None]).compile().as_text()
    return text, grid_for(problem, data.T, n, TAU_MIN)


def test_the_search_for_copies_finds_one():
    # A buffer whose old value is read after its update was computed is copied whole.
    def body(i, carry):
        buffer, total = carry
        new = jax.lax.dynamic_update_index_in_dim(buffer, total + i, i, 0)
        return new, total + jnp.sum(new[:3] * buffer[:3])

    run = jax.jit(lambda b: jax.lax.fori_loop(0, 50, body, (b, 0.0)))
    text = run.lower(jnp.zeros(500)).compile().as_text()
    assert copies_in_loops(text, 500)
    assert not copies_in_loops(text, 501)


CASES = [
    ("exponential", dd.SumOfSquares(), dd.RK2(), dd.Discrete()),
    ("exponential", dd.Integral(dd.L1()), dd.RK4(), dd.Discrete()),
    ("logistic", dd.Integral(dd.L2(), nodes="solver"), dd.RK2(), dd.Discrete()),
    ("enso", dd.SumOfSquares(), dd.RK4(), dd.Discrete()),
    ("cheyne", dd.Integral(dd.L2()), dd.RK2(), dd.Discrete()),
    ("hiv", dd.SumOfSquares(), dd.RK2(), dd.Discrete()),
    ("hiv", dd.SumOfSquares(), dd.RK4(), dd.Forward()),
]


@pytest.mark.parametrize("model, loss, solver, route", CASES)
def test_the_loops_are_machine_code_without_copies(model, loss, solver, route):
    text, grid = program(model, loss, solver, route)
    assert is_machine_code(text)
    assert not copies_in_loops(text, grid.capacity)


def test_a_training_loop_is_one_kernel():
    experiment, data = EXPERIMENTS["exponential"], EXPERIMENTS["exponential"].clean
    problem, loss, route = experiment.start, dd.SumOfSquares(), dd.Discrete()
    params, fixed = eqx.partition(problem, eqx.is_inexact_array)
    grid, target = grid_for(problem, data.T, 10, TAU_MIN), loss.prepare(data)
    system = System(fixed, AlignedEngine(dd.RK2()), grid, jnp.asarray(data.T), 1)

    def epoch(_, carry):
        params, buffers, _ = carry
        value, gradient, buffers = route(system, loss, target, params, buffers)
        params = jax.tree.map(lambda p, g: p - 1e-5 * g, params, gradient)
        return params, buffers, value

    @jax.jit
    def train(params, buffers, epochs):
        carry = params, buffers, jnp.zeros(())
        return jax.lax.fori_loop(0, epochs, epoch, carry)

    arguments = params, route.buffers(system), 5
    compiled = train.lower(*arguments).compile()
    text = compiled.as_text()
    assert is_machine_code(text)
    found, entry = computations(text)
    assert sum("xla_cpu_small_call" in line for line in found[entry]) == 1
    assert not copies_in_loops(text, grid.capacity)
    first = dd.value_and_grad(problem, data, solver=dd.RK2(), steps_per_delay=10)[0]
    assert float(compiled(*arguments)[2]) < float(first)


# On a mesh.

T = np.linspace(0.0, 6.0, 40)
DATA = dd.Data(T, 1 + np.sin(T))


def two_delays():
    def rhs(x, y, tau, t, r=1.1, K=2.0, c=0.3):
        return r * x * (1 - y[0] / K) - c * x * y[1]

    return dd.Problem(rhs, dd.Constant(0.5), (0.9, 0.4))


def compiled(function, *arguments):
    return jax.jit(function).lower(*arguments).compile().as_text()


@pytest.mark.parametrize("overlaps", [False, True])
def test_the_gradient_on_a_mesh(overlaps):
    problem = two_delays()
    vector, rebuild = flatten(problem)
    engine = engine_for(problem, dd.RK4(), 6.0, 0.25 if overlaps else 0.1)
    grid = engine.grid(problem, 6.0, 10)
    assert grid.overlaps == overlaps
    loss = dd.SumOfSquares()
    method = loss, dd.Discrete(), engine, grid

    def gradient(vector):
        target, end = loss.prepare(DATA), jnp.asarray(6.0)
        value, found = loss_and_gradient(rebuild(vector), target, end, *method)
        return value, ravel_pytree(eqx.filter(found, eqx.is_inexact_array))[0]

    text = compiled(gradient, jnp.asarray(vector))
    assert is_machine_code(text)
    assert not copies_in_loops(text, grid.capacity)


@pytest.mark.parametrize("overlaps", [False, True])
def test_least_squares_on_a_mesh(overlaps):
    problem = two_delays()
    setup = setup_of(problem, DATA)
    engine = setup.model.engine
    assert isinstance(engine, MeshEngine)
    engine = replace(engine, overlaps=overlaps)
    model, capacity = replace(setup.model, engine=engine), 256
    points = jax.tree.map(jnp.asarray, setup.points())

    def normal(theta):
        steps = model.steps(theta, 100, points.times[-1], capacity)
        memory = model.sensitivity(theta, steps, points.times[-1]).memory(capacity)

        def one(_, carry):
            theta, memory, _ = carry
            found, memory = normal_equations(model, theta, points, steps, memory)
            return theta - 1e-6 * found.gram[0, 1:], memory, found.gram

        gram = jnp.zeros((theta.shape[0] + 1,) * 2)
        return jax.lax.fori_loop(0, 3, one, (theta, memory, gram))[2]

    values = dd.parameter_values(problem)
    theta = jnp.asarray([values[name] for name in model.free.names])
    text = compiled(normal, theta)
    assert is_machine_code(text)
    assert not copies_in_loops(text, capacity)


RIGHT = [
    ("exponential", dd.SumOfSquares(), dd.Discrete()),
    ("exponential", dd.SumOfSquares(), dd.Forward()),
    ("hiv", dd.Integral(dd.L2()), dd.Discrete()),
    ("hiv", dd.Integral(dd.L2(), nodes="solver"), dd.Discrete()),
]


def numbers():
    """Losses, gradients and states, and whether every loop is machine code."""
    result = []
    for model, loss, route in RIGHT:
        experiment, data = EXPERIMENTS[model], EXPERIMENTS[model].clean
        n = experiment.steps_per_delay
        how: Any = dict(loss=loss, gradient=route, solver=dd.RK4(), steps_per_delay=n)
        value, gradient = dd.value_and_grad(experiment.start, data, **how)
        result.append([float(value), *flatten(gradient)[0].tolist()])
    solution = dd.solve(experiment.start, data.T, dd.RK4(), experiment.steps_per_delay)
    result.append(np.ravel(solution.x).tolist())
    return result, is_machine_code(program(*CASES[0])[0])


@pytest.mark.slow
def test_without_the_setting_everything_is_right():
    code = "import json, test_compiled; print(json.dumps(test_compiled.numbers()))"
    flag = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1024"
    done = python("-c", code, folder=Path(__file__).parent, XLA_FLAGS=flag)
    slow, slow_is_machine_code = json.loads(done.stdout)
    fast, fast_is_machine_code = numbers()
    assert fast_is_machine_code and not slow_is_machine_code  # what the setting does
    assert len(slow) == len(fast) == len(RIGHT) + 1
    for found, expected in zip(slow, fast):
        size = np.max(np.abs(expected))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * size)


def test_a_setting_of_the_users_is_kept():
    code = "import ddefind, os, jax; print(os.environ['XLA_FLAGS']); "
    code += "print(jax.numpy.ones(1).dtype)"
    mine = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=7"
    outputs = []
    for extra in ({"XLA_FLAGS": mine, "JAX_ENABLE_X64": "0"}, {"XLA_FLAGS": ""}):
        done = python("-c", code, unset=["JAX_ENABLE_X64"], **extra)
        outputs.append(done.stdout.split())
    assert outputs[0] == [mine, "float32"]
    assert "small_while_loop_byte_threshold=1000000000" in outputs[1][0]
    assert outputs[1][1] == "float64"
