"""Torch modules of many kinds, as people write them: right-hand sides and histories."""

import copy
import io
import math

import torch
from torch import nn
from torch.nn import functional as F


def scalar(value):
    return nn.Parameter(torch.tensor(float(value)))


def differences_agree(module, *inputs):
    """Torch's own test of derivatives, for the inputs and every parameter."""
    names = [name for name, _ in module.named_parameters()]
    values = [p.detach().clone().requires_grad_() for p in module.parameters()]
    inputs = [each.clone().requires_grad_() for each in inputs]

    def trajectory(*tensors):
        given = dict(zip(names, tensors[len(inputs) :]))
        return torch.func.functional_call(module, given, tensors[: len(inputs)])

    return torch.autograd.gradcheck(trajectory, (*inputs, *values))


def check_copies(module, other, times):
    """A module whose numbers another one gets, that is copied, and that goes through a
    file: all have its trajectory, which the other one did not have before."""
    assert not torch.equal(other(times), module(times))
    other.load_state_dict(module.state_dict())
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    for same in (other, copy.deepcopy(module), loaded):
        assert torch.equal(same(times), module(times))


def check_batch(module, times, *inputs):
    """A batch is its trajectories one by one."""
    together = module(times, *inputs)
    for number, found in enumerate(together):
        one = slice(number, number + 1)
        alone = module(times, *(each[one] for each in inputs))[0]
        torch.testing.assert_close(found, alone, rtol=1e-12, atol=1e-12)
    return together


# The paper's models.


class Exponential(nn.Module):
    def __init__(self, theta_0, theta_1):
        super().__init__()
        self.theta_0, self.theta_1 = scalar(theta_0), scalar(theta_1)

    def forward(self, x, y, tau, t):
        return self.theta_0 * x + self.theta_1 * y


class Logistic(Exponential):
    def forward(self, x, y, tau, t):
        return self.theta_0 * x * (1 - self.theta_1 * y)


class ENSO(nn.Module):
    def __init__(self, theta_0, theta_1, theta_2):
        super().__init__()
        self.theta_0, self.theta_1 = scalar(theta_0), scalar(theta_1)
        self.theta_2 = scalar(theta_2)

    def forward(self, x, y, tau, t):
        return self.theta_0 * x - self.theta_1 * x**3 - self.theta_2 * y


class Cheyne(nn.Module):
    def __init__(self, p, V_0, alpha):
        super().__init__()
        self.p, self.V_0, self.alpha = scalar(p), scalar(V_0), scalar(alpha)

    def forward(self, x, y, tau, t):
        power = y.pow(8)
        return self.p - self.V_0 * x * power / (self.alpha + power)


class HIV(nn.Module):
    def __init__(self, k, m, delta, c, T_0, n_p, N):
        super().__init__()
        self.k, self.m, self.delta, self.c = map(scalar, (k, m, delta, c))
        self.T_0, self.n_p, self.N = map(scalar, (T_0, n_p, N))

    def forward(self, x, y, tau, t):
        born = self.k * self.T_0 * y[1] * torch.exp(-self.m * tau)
        made = self.N * self.delta * x[0]
        dx = torch.zeros_like(x)
        dx[0] = born - self.delta * x[0]
        dx[1] = (1 - self.n_p) * made - self.c * x[1]
        dx[2] = self.n_p * made - self.c * x[2]
        return dx


class Affine(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.a, self.b = (nn.Parameter(torch.tensor(v)) for v in (a, b))

    def forward(self, t):
        return self.a * t + self.b


class Periodic(nn.Module):
    def __init__(self, A, omega, b):
        super().__init__()
        self.A, self.omega, self.b = map(nn.Parameter, map(torch.tensor, (A, omega, b)))

    def forward(self, t):
        return self.A * torch.sin(self.omega * t) + self.b


# Networks.


class MLP(nn.Module):
    """A hidden layer for each activation."""

    def __init__(self, *activations, width=5):
        super().__init__()
        widths = [4, *[width] * len(activations)]
        hidden = [
            part
            for n, m, activation in zip(widths, widths[1:], activations)
            for part in (nn.Linear(n, m), activation)
        ]
        self.net = nn.Sequential(*hidden, nn.Linear(width, 2))

    def forward(self, x, y, tau, t):
        return self.net(torch.cat([x, y]))


class OfEverything(nn.Module):
    """A network that also sees the times, large enough for matrix products."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 30), nn.Linear(30, 2)

    def forward(self, x, y, tau, t):
        return self.last(torch.tanh(self.first(torch.hstack([x, y, tau, t]))))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.out = nn.Linear(4, 2, bias=False)

    def forward(self, x, y, tau, t):
        h = torch.cat((x, y), dim=-1)
        for block in self.blocks:
            h = h + F.silu(block(h))
        return self.out(h)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.value = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x, y, tau, t):
        h = torch.cat([x, y])
        return torch.sigmoid(self.gate(h)) * torch.tanh(self.value(h)) - x


class LinearUnits(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 6), nn.GLU(), nn.Linear(3, 2))

    def forward(self, x, y, tau, t):
        return self.net(torch.cat([x, y]))


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(2, 2)

    def forward(self, x, y, tau, t):
        return self.cell(y, x) - x


class Normed(nn.Module):
    def __init__(self, norm, unsqueeze=False):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 6), norm, nn.Linear(6, 2)
        self.unsqueeze = unsqueeze

    def forward(self, x, y, tau, t):
        h = self.first(torch.cat([x, y]))
        h = self.norm(h.unsqueeze(0)).squeeze(0) if self.unsqueeze else self.norm(h)
        return self.last(h)


def batch_norm():
    norm = nn.BatchNorm1d(6)
    assert norm.running_mean is not None and norm.running_var is not None
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 1.5)
    return Normed(norm, unsqueeze=True).eval()


class Fourier(nn.Module):
    frequencies: torch.Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", torch.randn(3, 4))
        self.last = nn.Linear(6, 2)

    def forward(self, x, y, tau, t):
        angles = 2 * math.pi * self.frequencies @ torch.cat([x, y])
        return self.last(torch.cat([angles.sin(), angles.cos()]))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(2, 1, batch_first=True)

    def forward(self, x, y, tau, t):
        tokens = torch.stack([x, y])[None]
        return self.attention(tokens, tokens, tokens, need_weights=False)[0][0, 0]


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.Parameter(torch.randn(3, 2, 2))
        self.choice = nn.Linear(2, 3)

    def forward(self, x, y, tau, t):
        weights = self.choice(y).softmax(-1)
        return torch.einsum("k,kij,j->i", weights, self.experts, x)


class RadialBasis(nn.Module):
    def __init__(self):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(5, 4))
        self.width, self.last = scalar(0.7), nn.Linear(5, 2)

    def forward(self, x, y, tau, t):
        distance = torch.cdist(torch.cat([x, y])[None], self.centers)[0]
        return self.last(torch.exp(-((distance / self.width) ** 2)))


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 2))

    def forward(self, x, y, tau, t):
        return self.layer(F.normalize(torch.cat([x, y]), dim=0))


class Tied(nn.Module):
    """Two layers with one weight, which must be learned once."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(2, 2), nn.Linear(2, 2)
        self.two.weight = self.one.weight

    def forward(self, x, y, tau, t):
        return self.two(torch.tanh(self.one(x) + y))


class Bilinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.form = nn.Bilinear(2, 2, 2)

    def forward(self, x, y, tau, t):
        return self.form(x, y)


# Models with a structure.


class Quadratic(nn.Module):
    def __init__(self):
        super().__init__()
        self.A, self.B = (nn.Parameter(torch.randn(2, 2)) for _ in range(2))
        self.Q = nn.Parameter(torch.randn(2, 2, 2))

    def forward(self, x, y, tau, t):
        return self.A @ x + y @ self.B + torch.einsum("ijk,j,k->i", self.Q, x, y)


class Rational(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = (nn.Parameter(torch.rand(4)) for _ in range(2))

    def forward(self, x, y, tau, t):
        powers = torch.stack([x**k for k in range(4)])
        above = (self.up[:, None] * powers).sum(0)
        return above / (1 + (self.down[:, None] ** 2 * powers**2).sum(dim=0)) - y


class Hill(nn.Module):
    def __init__(self):
        super().__init__()
        self.log = nn.ParameterDict({k: scalar(0.1) for k in ("beta", "K", "n")})

    def forward(self, x, y, tau, t):
        beta, K, n = (self.log[k].exp() for k in ("beta", "K", "n"))
        return beta * K**n / (K**n + y.abs() ** n) - x


class Piecewise(nn.Module):
    def __init__(self):
        super().__init__()
        self.slopes = nn.ParameterList(scalar(v) for v in (0.5, 2.0))
        self.threshold = scalar(0.3)

    def forward(self, x, y, tau, t):
        low, high = self.slopes
        pulled = torch.where(y > self.threshold, high * y, low * y**2)
        saturated = x.clamp(-0.5, 0.5) + torch.minimum(x, y).clamp(min=self.threshold)
        return pulled - saturated - torch.relu(x - 1) + (t > 1.0) * x


class Seasonal(nn.Module):
    """A time, a delay, plain tensors, constants made on the way, integers."""

    def __init__(self):
        super().__init__()
        self.rates = torch.tensor([0.5, 2.0])
        self.amplitude = scalar(0.4)

    def forward(self, x, y, tau, t):
        season = 1 + self.amplitude * torch.cos(2 * torch.pi * t)
        steps = torch.arange(2) + torch.ones(2)
        return season * self.rates * steps * y / (1 + tau) - x / torch.linspace(1, 2, 2)


class Compartments(nn.Module):
    """Flows between compartments: indices, slices, writes in place."""

    def __init__(self):
        super().__init__()
        self.rates = nn.Parameter(torch.rand(3))

    def forward(self, x, y, tau, t):
        flow = self.rates * torch.cat([x[:2], y[-1:]])
        dx = torch.zeros(4, dtype=x.dtype)
        dx[:3] -= flow
        dx[1:] += flow
        dx[0] = dx[0] + x[3] * y[[2, 0]].sum()
        dx[::2] *= 2
        dx[[1, 3]] = dx[[3, 1]]
        return dx


class Ring(nn.Module):
    """Diffusion on a ring of cells, with a wall in one of them."""

    open: torch.Tensor

    def __init__(self):
        super().__init__()
        self.D, self.growth = scalar(0.2), scalar(1.1)
        self.register_buffer("open", torch.tensor([True, True, False, True]))

    def forward(self, x, y, tau, t):
        laplace = x.roll(1) - 2 * x + torch.roll(x, -1)
        grown = self.growth * x * (1 - y.flip(0))
        return torch.where(self.open, self.D * laplace + grown, torch.zeros(()))


class Filtered(nn.Module):
    """A field on a line, by convolution with circular padding."""

    def __init__(self):
        super().__init__()
        self.filter = nn.Conv1d(2, 1, 3, padding=1, padding_mode="circular")

    def forward(self, x, y, tau, t):
        return self.filter(torch.stack([x, y])).reshape(-1)[:5].repeat(1)


class Frozen(nn.Module):
    """A part that is not learned, one behind `detach`, and one not used at all."""

    def __init__(self):
        super().__init__()
        self.known = nn.Parameter(torch.tensor([0.5, 1.5]), requires_grad=False)
        self.rate, self.unused = scalar(0.8), scalar(1.0)

    def forward(self, x, y, tau, t):
        return -self.rate * self.known * y + (self.rate * x).detach() * x


class Statistics(nn.Module):
    """Sums, means and extremes over the components."""

    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.rand(6))

    def forward(self, x, y, tau, t):
        sums = [x.mean(), x.var(), y.std(), x.max(), y.min(dim=0).values, x.prod()]
        total = (torch.stack(sums) * self.weights).sum()
        soft = torch.logsumexp(x, 0) + torch.linalg.norm(y) + torch.norm(x, 1)
        return torch.cumsum(x, 0) * total + soft - torch.diff(y, append=y[:1])


class Special(nn.Module):
    """Functions that are less common."""

    def __init__(self):
        super().__init__()
        self.a = scalar(0.7)

    def forward(self, x, y, tau, t):
        z = torch.lgamma(1 + x * x) + torch.special.xlogy(self.a, 1 + y * y)
        z = z + torch.atan2(x, 1 + y * y) + torch.hypot(x, y) + torch.sinc(self.a * x)
        z = z + torch.logaddexp(x, y) + torch.erf(x) + torch.log1p(y * y) / 2 ** (x * x)
        return z + torch.remainder(x, 0.7) + torch.lerp(x, y, self.a) + torch.frac(t)


class Triangular(nn.Module):
    """A Jacobian made of a matrix: transposes, triangles, diagonals, traces."""

    def __init__(self):
        super().__init__()
        self.L = nn.Parameter(torch.randn(3, 3))

    def forward(self, x, y, tau, t):
        lower = torch.tril(self.L) + torch.diag(x)
        skew = self.L - self.L.T
        square = lower @ lower.mT
        rest = torch.linalg.cross(x, y) * torch.trace(square) + torch.outer(x, y).sum(1)
        return -(square @ x) + skew @ y + rest


class Columns(nn.Module):
    """Written for 0-d states: the state has one component."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)

    def forward(self, x, y, tau, t):
        return self.net(torch.stack([x, y, tau, t])).tanh().squeeze()


class Vectors(nn.Module):
    """Written for times that are vectors of one number."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 2)

    def forward(self, x, y, tau, t):
        return self.net(torch.cat([x, y, tau, t]))


ACTIVATIONS = {
    "rectified": [nn.ReLU(), nn.ReLU6(), nn.Threshold(0.1, -0.2), nn.Hardtanh(-0.3)],
    "leaky": [nn.LeakyReLU(0.2), nn.PReLU(), nn.RReLU().eval()],
    # Torch rounds 1 / alpha of CELU to float32 in its derivative: an exact one, then.
    "exponential": [nn.ELU(1.3), nn.SELU(), nn.CELU(0.5), nn.Softplus(2.0, 0.5)],
    "smooth": [nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Mish(), nn.Hardswish()],
    "sigmoid": [nn.Sigmoid(), nn.LogSigmoid(), nn.Softsign()],
    "shrinking": [nn.Tanhshrink(), nn.Softshrink(0.1), nn.Hardshrink(0.1)],
    "normalising": [nn.Softmax(-1), nn.LogSoftmax(-1), nn.Softmin(-1)],
}
BUILT = {
    **{f"MLP {k}": lambda a=a: MLP(*a) for k, a in ACTIVATIONS.items()},
    "MLP wide": lambda: MLP(nn.Tanh(), width=40),
    "of everything": OfEverything,
    "residual": Residual,
    "gated": Gated,
    "gated linear units": LinearUnits,
    "GRU cell": Cell,
    "layer norm": lambda: Normed(nn.LayerNorm(6)),
    "RMS norm": lambda: Normed(nn.RMSNorm(6)),
    "group norm": lambda: Normed(nn.GroupNorm(2, 6), unsqueeze=True),
    "batch norm": batch_norm,
    "dropout at rest": lambda: Normed(nn.Dropout(0.5)).eval(),
    "Fourier features": Fourier,
    "attention": Attention,
    "mixture": Mixture,
    "radial basis": RadialBasis,
    "normalised weights": Normalised,
    "tied weights": Tied,
    "bilinear": Bilinear,
    "quadratic": Quadratic,
    "rational": Rational,
    "Hill": Hill,
    "piecewise": Piecewise,
    "seasonal": Seasonal,
    "compartments": Compartments,
    "ring": Ring,
    "convolution": Filtered,
    "frozen": Frozen,
    "statistics": Statistics,
    "special": Special,
    "triangular": Triangular,
    "0-d state": Columns,
    "1-d times": Vectors,
}
DIMENSIONS = {"ring": 4, "statistics": 3, "special": 2, "convolution": 5, "Hill": 2}
DIMENSIONS |= {"piecewise": 2, "rational": 2}
HISTORIES = {
    "sequential": lambda: nn.Sequential(
        nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 2)
    ),  # for a time that is a vector
    "scalar": lambda: Periodic(0.5, 2.0, 1.0),
    "vector": lambda: Affine([1.0, 2.0, 3.0], [0.5, 0.0, 1.0]),
    "of many times": lambda: Rows(),
}


class Rows(nn.Module):
    """A row for each time, as the paper's code has it."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.rand(2)), nn.Parameter(torch.rand(2))

    def forward(self, t):
        return t.reshape(-1, 1) * self.a + self.b
