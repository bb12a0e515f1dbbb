"""Neural Laplace on a set of trajectories: `python run_torchlaplace.py SET.npz EPOCHS
SEED`, in an environment with torch and torchlaplace; prints a line of JSON.

The network and the training are those of its published experiments: a GRU reads the
seen half backwards, a network on the Riemann sphere is the Laplace transform, Adam with
a rate of 0.001 in batches of 128, and the epoch that is best on the set to choose by.
"""

import copy
import json
import sys
import time

import numpy as np
import torch
from torch import nn
from torchlaplace import laplace_reconstruct  # type: ignore

LATENT, TERMS, BATCH = 2, 33, 128


class Encoder(nn.Module):
    def __init__(self, states: int, hidden: int = 21):
        super().__init__()
        self.gru = nn.GRU(states, hidden, 2, batch_first=True)
        self.out = nn.Linear(hidden, LATENT)
        nn.init.xavier_uniform_(self.out.weight)

    def forward(self, x):
        return self.out(self.gru(torch.flip(x, (1,)))[0][:, -1])


class Transform(nn.Module):
    """Points of the sphere to points of the sphere, for each state."""

    def __init__(self, states: int, hidden: int = 64):
        super().__init__()
        self.states, inputs = states, 2 * TERMS + LATENT
        self.layers = nn.Sequential(
            *(nn.Linear(inputs, hidden), nn.Tanh()),
            *(nn.Linear(hidden, hidden), nn.Tanh()),
            nn.Linear(hidden, 2 * TERMS * states),
        )
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)

    def forward(self, inputs):
        flat = inputs.reshape(-1, inputs.shape[-1])
        angles = torch.tanh(self.layers(flat)).view(-1, 2 * self.states, TERMS)
        theta, phi = angles[:, : self.states], angles[:, self.states :]
        return torch.pi * theta, torch.pi / 2 * phi


class NeuralLaplace(nn.Module):
    def __init__(self, states: int):
        super().__init__()
        self.states = states
        self.encoder, self.transform = Encoder(states), Transform(states)

    def forward(self, seen, times):
        latent = self.encoder(seen)
        return laplace_reconstruct(self.transform, latent, times, self.states)


def main() -> None:
    path, epochs, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(seed)
    given = np.load(path)
    x, half = torch.tensor(given["x"]), int(given["seen"])
    times = torch.tensor(given["t"])[half:]
    parts = {name: x[given[name]] for name in ("learn", "choose", "test")}
    model = NeuralLaplace(x.shape[2]).double()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def error(part: str) -> float:
        with torch.no_grad():
            predicted = model(parts[part][:, :half], times)
        truth = parts[part][:, half:].reshape(predicted.shape)
        return float(torch.sqrt(torch.mean((predicted - truth) ** 2)))

    start, best, kept = time.perf_counter(), np.inf, model.state_dict()
    for epoch in range(epochs):
        order = torch.randperm(len(parts["learn"]))
        for chosen in torch.split(order, BATCH):
            batch = parts["learn"][chosen]
            optimiser.zero_grad()
            predicted = model(batch[:, :half], times)
            truth = batch[:, half:].reshape(predicted.shape)
            torch.mean((predicted - truth) ** 2).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
        if (now := error("choose")) < best:
            best, kept = now, copy.deepcopy(model.state_dict())
        if epoch % 20 == 0:
            spent = time.perf_counter() - start
            line = f"epoch {epoch}: {spent:.0f} s, RMSE to choose by {best:.4f}"
            print(line, file=sys.stderr, flush=True)
    model.load_state_dict(kept)
    seconds = time.perf_counter() - start
    print(json.dumps({"rmse": error("test"), "chosen": best, "seconds": seconds}))


main()
