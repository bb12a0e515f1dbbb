"""The loops become machine code: one kernel, no copies. Without XLA's setting all is
right, only slower."""

import json
import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._engine.aligned.march import System
from ddefind.paper import EXPERIMENTS
from support.compiled_text import computations, copies_in_loops, is_machine_code
from support.gradients import gradients_of, grid_for
from support.vectors import flatten

pytestmark = pytest.mark.usefixtures("without_cache")
TAU_MIN = 0.2


def program(model, loss, solver, route):
    """The compiled text of a value and gradient, and its grid."""
    experiment, data = EXPERIMENTS[model], EXPERIMENTS[model].clean
    problem, n = experiment.start, experiment.steps_per_delay
    function = gradients_of(problem, data, loss, solver, n, TAU_MIN, route)
    vectors = jnp.asarray(flatten(problem)[0])[None]
    text = function.lower(vectors).compile().as_text()
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
    system = System(fixed, dd.RK2(), grid, jnp.asarray(data.T), 1)

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
        value, gradient = dd.value_and_grad(
            experiment.start,
            data,
            loss=loss,
            gradient=route,
            solver=dd.RK4(),
            steps_per_delay=experiment.steps_per_delay,
        )
        result.append([float(value), *flatten(gradient)[0].tolist()])
    solution = dd.solve(experiment.start, data.T, dd.RK4(), experiment.steps_per_delay)
    result.append(np.ravel(solution.x).tolist())
    return result, is_machine_code(program(*CASES[0])[0])


@pytest.mark.slow
def test_without_the_setting_everything_is_right():
    code = "import json, test_compiled; print(json.dumps(test_compiled.numbers()))"
    flag = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1024"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"XLA_FLAGS": flag},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
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
        environment = {k: v for k, v in os.environ.items() if k != "JAX_ENABLE_X64"}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment | extra,
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.append(done.stdout.split())
    assert outputs[0] == [mine, "float32"]
    assert "small_while_loop_byte_threshold=1000000000" in outputs[1][0]
    assert outputs[1][1] == "float64"
