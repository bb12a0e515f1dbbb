"""Fit a torch module to data: learn an unknown law of growth, and the delay.

A population x grows at the rate r - y g(y), where y = x(t - tau) is its size one delay
ago. How crowding acts is not known, so g is a small network. `dd.from_torch` converts
the module once, `dd.fit` learns its weights, the delay and the history in one compiled
program, and `fit.to_torch()` returns the module with the learned weights.

    python examples/torch_fit.py
"""

import numpy as np
import torch
from torch import nn

import ddefind as dd


class Growth(nn.Module):
    """x' = x (r - y g(y)), where y is the state one delay ago."""

    def __init__(self):
        super().__init__()
        self.r = nn.Parameter(torch.tensor(1.0))
        self.g = nn.Sequential(
            nn.Linear(1, 6), nn.Tanh(), nn.Linear(6, 1), nn.Softplus()
        )

    def rate(self, y):
        return self.r - y * self.g(y)

    def forward(self, x, y, tau, t):
        return x * self.rate(y)


def measure() -> dd.Data:
    """Noisy measurements of a population that follows the delayed logistic law."""
    truth = dd.Problem(dd.models.Logistic(2.0, 1.5), dd.Constant(0.4), tau=1.0)
    t = np.linspace(0, 8, 81)
    noise = 0.02 * np.random.default_rng(0).normal(size=(81, 1))
    return dd.Data(t, dd.solve(truth, T=8)(t) + noise)


def main() -> dict[str, float]:
    torch.manual_seed(0)
    problem = dd.Problem(dd.from_torch(Growth()), dd.Constant(0.5), tau=0.7)
    fit = dd.fit(
        problem,
        measure(),
        parameters={"tau": dd.Parameter(lower=0.2, upper=3.0)},
        optimizer=dd.Adam(dd.Cosine(0.02)),
        epochs=3000,
        progress=False,
    )
    learned = fit.to_torch()
    assert isinstance(learned.rhs, Growth)
    crowding = torch.linspace(0.2, 1.2, 5)
    with torch.no_grad():
        rates = learned.rhs.rate(crowding[:, None]).ravel()
    true = 2 - 3 * crowding
    print(f"delay {learned.tau:.3f} (true 1)")
    for name, row in dict(crowding=crowding, learned=rates, true=true).items():
        print(f"{name:<10}" + "".join(f"{value:8.2f}" for value in row))
    return {"tau": learned.tau, "error": (rates - true).abs().max().item()}


if __name__ == "__main__":
    main()
