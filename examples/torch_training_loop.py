"""A plain torch training loop around a delay differential equation.

The data are many short, noisy recordings of one system, each with its own history.
`DelayODE` is a layer like any other: the loss, the optimiser and the data loader are
torch's.

    python examples/torch_training_loop.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from ddefind.torch import DelayODE


class MackeyGlass(nn.Module):
    """x' = beta y / (1 + y^8) - gamma x, where y is the state one delay ago."""

    def __init__(self, beta, gamma):
        super().__init__()
        self.beta = nn.Parameter(torch.tensor(beta))
        self.gamma = nn.Parameter(torch.tensor(gamma))

    def forward(self, x, y, tau, t):
        return self.beta * y / (1 + y**8) - self.gamma * x


class Rest(nn.Module):
    """A constant history: before time 0 each recording has its own level."""

    def forward(self, t, level):
        return level


def simulate_recordings(times: torch.Tensor, count: int) -> TensorDataset:
    """The levels before time 0, and noisy measurements afterwards."""
    truth = DelayODE(MackeyGlass(2.0, 1.0), Rest(), tau=1.5)
    levels = 0.4 + torch.rand(count, 1)
    with torch.no_grad():
        states = truth(times, levels)
    return TensorDataset(levels, states + 0.02 * torch.randn_like(states))


def main() -> dict[str, float]:
    torch.manual_seed(0)
    times = torch.linspace(0, 6, 31)
    loader = DataLoader(simulate_recordings(times, 64), batch_size=16, shuffle=True)
    model = DelayODE(MackeyGlass(1.0, 0.5), Rest(), tau=1.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(60):
        total = 0.0
        for levels, states in loader:
            optimiser.zero_grad()
            loss = nn.functional.huber_loss(model(times, levels), states)
            loss.backward()
            optimiser.step()
            total += loss.item()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:3d}: loss {total / len(loader):.6f}")
    learned = {name: parameter.item() for name, parameter in model.named_parameters()}
    for (name, value), true in zip(learned.items(), (1.5, 2.0, 1.0)):
        print(f"{name:<10} {value:.3f} (true {true})")
    return learned


if __name__ == "__main__":
    main()
