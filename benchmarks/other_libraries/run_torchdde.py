"""A neural delay equation by torchdde: `python run_torchdde.py GIVEN.npz SECONDS GOAL
SEED`, in an environment with torch and torchdde; prints a line of JSON.

x' = F(x, x(t - tau)) with a network F of 16 units, a constant history and the delay,
all learned by Adam from the squared residuals of standardised data. It stops after
SECONDS, or as soon as the root mean square of the residuals is below GOAL."""

import json
import sys
import time
import warnings

import numpy as np
import torch
from torch import nn

from torchdde import RK4, integrate  # type: ignore


class Equation(nn.Module):
    def __init__(self, tau: float):
        super().__init__()
        self.delays = nn.Parameter(torch.tensor([tau]))
        self.start = nn.Parameter(torch.zeros(1, 1))
        self.layers = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, t, x, args, *, history):
        return self.layers(torch.cat([x, *history], dim=-1))


def main() -> None:
    path, seconds, goal, seed = sys.argv[1], *map(float, sys.argv[2:])
    torch.manual_seed(int(seed))
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    given = np.load(path)
    t, x = torch.tensor(given["t"]), torch.tensor(given["x"])[None]
    step = t[1] - t[0]
    model = Equation(float(given["tau"]))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    began, epochs, best = time.perf_counter(), 0, np.inf
    while best > goal and time.perf_counter() - began < seconds:
        optimiser.zero_grad()
        path = integrate(
            *(model, RK4(), t[0], t[-1], t, lambda _: model.start, None),
            dt0=step,
            delays=model.delays,
            discretize_then_optimize=True,
        )
        loss = torch.mean((path - x) ** 2)
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            model.delays.clamp_(step, t[-1])
        epochs, best = epochs + 1, min(best, loss.item() ** 0.5)
    spent, tau = time.perf_counter() - began, model.delays[0].item()
    found = {"residual": best, "seconds": spent, "epochs": epochs, "tau": tau}
    print(json.dumps(found))


main()
