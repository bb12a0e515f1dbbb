"""Random data of text equations that the paper does not know: lively, noisy, with all
states measured. Half of them are fitted within a factor of ten of the truth, half
without any bounds."""

from dataclasses import dataclass

import numpy as np

import ddefind as dd


@dataclass(frozen=True)
class Kind:
    """An equation, and the ranges of its parameters, its start and the record."""

    text: str
    theta: dict[str, tuple[float, float]]
    history: dict[str, tuple[float, float]]
    T: tuple[float, float]


KINDS = {
    "sir": Kind(
        """S' = mu - beta * S * I - mu * S
        I' = beta * exp(-mu * tau) * S(t - tau) * I(t - tau) - (mu + g) * I""",
        dict(mu=(0.05, 0.3), beta=(1.5, 6.0), g=(0.3, 1.0), tau=(0.3, 2.0)),
        {"b[0]": (0.3, 1.0), "b[1]": (0.01, 0.1)},
        (15.0, 40.0),
    ),
    "mackey_glass": Kind(
        "x' = beta * x(t - tau) / (1 + x(t - tau)^n) - gamma * x",
        dict(beta=(1.5, 3.0), gamma=(0.7, 1.3), n=(4.0, 10.0), tau=(1.0, 3.0)),
        {"b": (0.3, 1.3)},
        (15.0, 40.0),
    ),
    "nicholson": Kind(
        "x' = P * x(t - tau) * exp(-x(t - tau) / x0) - delta * x",
        dict(P=(4.0, 12.0), x0=(0.5, 20.0), delta=(0.5, 1.5), tau=(1.0, 3.0)),
        {"b": (0.5, 20.0)},
        (15.0, 40.0),
    ),
    "gene": Kind(
        "m' = a / (1 + (p(t - tau) / K)^n) - d * m;  p' = k * m - g * p",
        dict(
            a=(2.0, 8.0),
            K=(0.5, 3.0),
            n=(2.0, 6.0),
            d=(0.3, 1.0),
            k=(0.5, 2.0),
            g=(0.3, 1.0),
            tau=(1.5, 5.0),
        ),
        {"b[0]": (0.2, 3.0), "b[1]": (0.2, 3.0)},
        (25.0, 60.0),
    ),
}


@dataclass(frozen=True)
class Case:
    model: dd.Equation
    truth: dict[str, float]
    data: dd.Data
    parameters: dict[str, dd.Parameter]


def random_case(name: str, seed: int) -> Case:
    """Odd seeds have no bounds. The delay is at least 2.5 sampling intervals."""
    kind = KINDS[name]
    model = dd.equation(kind.text)
    random = np.random.default_rng([seed, len(name)])
    while True:
        truth = {
            key: float(np.exp(random.uniform(*np.log(limits))))
            for key, limits in (kind.theta | kind.history).items()
        }
        T, noise = random.uniform(*kind.T), random.uniform(0.05, 0.1)
        t = np.linspace(0, T, int(random.choice([60, 100, 150])))
        x = np.asarray(dd.solve(model.problem(truth), T=T, steps_per_delay=100)(t))
        if truth["tau"] > 2.5 * t[1] and _is_lively(x):
            break
    sd = noise * np.std(x, axis=0)
    data = dd.Data(t, x + sd * random.standard_normal(x.shape), names=model.states)
    bounds = {
        key: dd.Parameter(lower=truth[key] / 10, upper=truth[key] * 10)
        for key in kind.theta
        if key != "tau"
    }
    return Case(model, truth, data, {} if seed % 2 else bounds)


def _is_lively(x: np.ndarray) -> bool:
    """Still moving in the second half, by a tenth of its size."""
    late = x[len(x) // 2 :]
    return bool(np.all(np.std(late, axis=0) > 0.1 * np.mean(np.abs(late), axis=0)))
