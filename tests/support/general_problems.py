"""Random problems with delays of every kind, and all derivatives of their solutions.

A `Structure` is what a program is compiled for. Its problems have a vector of
parameters each, of which the first ones belong to the delays.

`python -m tests.support.general_problems 500` measures so many problems, and prints the
largest errors of each kind."""

import sys
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ddefind as dd

from .mesh_problems import Past
from .vectors import size_of, split

T, TIMES = 4.0, 8
# The steps of central differences, relative to max(1, |parameter|).
_STEPS = (2e-4, 1e-4)
KINDS = ("constant", "several", "gamma", "uniform", "neutral", "state", "time")


@final
class Equation(eqx.Module):
    """Every component depends on itself and on its neighbours' past."""

    decay: jax.Array  # [d]
    gains: jax.Array  # [k, d]
    drive: jax.Array
    neutral: jax.Array

    def __call__(self, x, y, tau, t):
        slope = -self.decay * x + self.drive * jnp.sin(t)
        for gain, delayed in zip(self.gains, y):
            if isinstance(delayed, tuple):
                delayed, speed = delayed
                slope += self.neutral * jnp.roll(speed, 1)
            slope += gain * jnp.tanh(jnp.roll(delayed, 1)) + 0.1 * x * jnp.tanh(delayed)
        return slope


@final
class OfState(eqx.Module):
    """tau = a (1 + 0.4 tanh(b x)), for the first component x."""

    a: jax.Array
    b: jax.Array

    def __call__(self, t, x):
        return self.a * (1 + 0.4 * jnp.tanh(self.b * x[0]))


@final
class OfTime(eqx.Module):
    """tau = a (1 + 0.3 sin(b t))."""

    a: jax.Array
    b: jax.Array

    def __call__(self, t, x):
        return self.a * (1 + 0.3 * jnp.sin(self.b * t))


@final
@dataclass(frozen=True)
class Structure:
    kind: str
    d: int

    @property
    def delays(self) -> int:
        """k, the number of delays."""
        return 2 if self.kind == "several" else 1

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The parameters in their order."""
        d = self.d
        return dict(
            delay=(1 if self.kind in ("constant", "neutral") else 2,),
            decay=(d,),
            gains=(self.delays, d),
            drive=(),
            neutral=(),
            level=(d,),
            speed=(d,),
        )

    @property
    def size(self) -> int:
        return size_of(self.shapes())

    def split(self, theta: Any) -> dict[str, Any]:
        return split(theta, self.shapes())

    def tau(self, numbers: Any) -> tuple:
        """The delays with the given parameters."""
        match self.kind:
            case "gamma":
                return (dd.GammaDelay(*numbers),)
            case "uniform":
                return (dd.UniformDelay(*numbers),)
            case "neutral":
                return (dd.Delay(numbers[0], slope=True),)
            case "state":
                return (dd.Delay(OfState(*numbers)),)
            case "time":
                return (dd.Delay(OfTime(*numbers)),)
        return tuple(numbers)

    def problem(self, theta: Any) -> dd.Problem:
        part = self.split(theta)
        rhs = Equation(part["decay"], part["gains"], part["drive"], part["neutral"])
        past = Past(part["level"], part["speed"])
        return dd.Problem(rhs, past, self.tau(list(part["delay"])))

    def random(self, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Parameters, times, and a cotangent for the states at these times."""
        random = np.random.default_rng([seed, self.d, KINDS.index(self.kind)])
        theta = 0.7 * random.normal(size=self.size)
        part = self.split(theta)
        first, second = random.uniform(0.3, 1.6), random.uniform(0.3, 1.6)
        part["delay"][:] = {
            "several": [first, second],
            "gamma": [first, random.uniform(1.1, 7.0)],
            "uniform": [0.5 * first, 0.5 * first + second],
            "state": [first, random.normal()],
            "time": [first, random.uniform(0.3, 1.5)],
        }.get(self.kind, [first])
        part["decay"][:] = random.uniform(0.3, 1.5, self.d)
        part["neutral"][...] = random.uniform(-0.6, 0.6)
        times = np.sort(random.uniform(0.3, T, TIMES))
        return theta, times, random.normal(size=(TIMES, self.d))


@final
@dataclass(frozen=True)
class Errors:
    """- `reverse`: the largest difference between reverse and forward mode, relative to
      the largest derivative.
    - `derivatives`: the largest difference between forward mode and Richardson's
      differences of tight solutions; for each parameter relative to its largest
      derivative, or a hundredth of that of all parameters.
    - `overall`: the same difference, relative to the largest derivative of all.
    - `states`: the largest error of a state.
    - `compared`: the share of the times that were compared. At the others the
      differences with two steps do not agree: a breaking point is near."""

    reverse: float
    derivatives: float
    overall: float
    states: float
    compared: float


@cache
def _program(structure: Structure, rtol: float, tight: float):
    def states(theta, times, tolerance, mode):
        problem = structure.problem(theta)
        return dd.solve(problem, T, dd.Tsit5(tolerance), differentiate=mode)(times)

    def one(case):
        theta, times, cotangent = case
        forward = jax.jacfwd(lambda theta: states(theta, times, rtol, "forward"))(theta)
        found, pull = jax.vjp(
            lambda theta: states(theta, times, rtol, "reverse"), theta
        )
        sizes = jnp.maximum(1.0, jnp.abs(theta))
        moves = jnp.concatenate(
            [sign * step * jnp.diag(sizes) for step in _STEPS for sign in (1, -1)]
        )
        thetas = jnp.concatenate([theta[None], theta + moves])
        moved = jax.lax.map(lambda each: states(each, times, tight, "forward"), thetas)
        return found, forward, pull(cotangent)[0], moved, sizes

    # Most of the time of a test is spent compiling.
    options = {"xla_backend_optimization_level": 0}
    return jax.jit(lambda cases: jax.lax.map(one, cases), compiler_options=options)


def measure(
    structure: Structure, seeds: Any, rtol: float = 1e-6, tight: float = 1e-11
) -> list[Errors]:
    """The errors of random problems of one structure."""
    cases = [structure.random(seed) for seed in seeds]
    stacked = tuple(jnp.stack(arrays) for arrays in zip(*cases))
    results = map(np.asarray, _program(structure, rtol, tight)(stacked))
    return [_errors(case[2], *each) for case, each in zip(cases, zip(*results))]


def _errors(cotangent, states, forward, reverse, moved, sizes) -> Errors:
    p = len(sizes)
    exact, above, below, near, far = moved[0], *moved[1:].reshape(4, p, *states.shape)
    coarse = (above - below) / (2 * _STEPS[0])
    fine = (near - far) / (2 * _STEPS[1])
    differences = np.moveaxis((4 * fine - coarse) / 3, 0, -1) / sizes  # [times, d, p]
    unsure = np.moveaxis(np.abs(fine - coarse), 0, -1) / sizes
    size = np.abs(differences).max(axis=(0, 1))
    scale = np.maximum(size, 1e-2 * size.max())
    good = (unsure / scale).max(axis=(1, 2)) < 1e-4
    wrong = np.abs(forward - differences) / scale
    pulled = np.einsum("ti,tip->p", cotangent, forward)
    return Errors(
        reverse=float(np.abs(pulled - reverse).max() / np.abs(pulled).max()),
        derivatives=float(wrong[good].max(initial=0.0)),
        overall=float(
            np.abs(forward - differences)[good].max(initial=0.0) / size.max()
        ),
        states=float(np.abs(states - exact).max() / np.abs(exact).max()),
        compared=float(good.mean()),
    )


def main(count: int) -> None:
    structures = [Structure(kind, d) for kind in KINDS for d in (1, 2, 3)]
    each = -(-count // len(structures))
    print("kind, d: problems, forward against reverse, against differences, overall")
    for structure in structures:
        found = measure(structure, range(each))
        largest = [
            max(getattr(errors, name) for errors in found)
            for name in ("reverse", "derivatives", "overall")
        ]
        compared = np.mean([errors.compared for errors in found])
        numbers = "  ".join(f"{value:.1e}" for value in largest)
        print(f"{structure.kind}, {structure.d}: {each}  {numbers}  ({compared:.0%})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
