"""What a torch module must not be, and what is said then."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import ddefind as dd
from ddefind.torch import DelayODE
from ddefind.torch._check_module import check_version
from support import torch_modules as tm
from support.command import python
from support.fits import unchecked


def module(function, **attributes):
    """A right-hand side with one parameter, from a function of (self, x, y, tau, t)."""

    class Made(nn.Module):
        def __init__(self):
            super().__init__()
            self.p = nn.Parameter(torch.tensor(0.7))

        def forward(self, x, y, tau, t):
            return function(self, x, y, tau, t)

    made = Made()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


UNSUPPORTED = {
    "aten.special_bessel_j0": lambda x: torch.special.bessel_j0(x),
    "aten._fft_r2c": lambda x: torch.fft.fft(x).real,
    "aten._linalg_solve_ex": lambda x: torch.linalg.solve(torch.eye(1) * x, x),
    "aten.linalg_inv_ex": lambda x: torch.linalg.inv(x[None])[0],
    "aten.sort": lambda x: torch.sort(x).values,
    "aten.median": lambda x: torch.median(x),
    "aten.searchsorted": lambda x: torch.searchsorted(x, x) * x,
    "aten.avg_pool2d": lambda x: nn.functional.avg_pool1d(x[None], 1)[0],
    "aten.complex": lambda x: torch.complex(x, x).abs(),
    "cond": lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
    "aten.index.Tensor": lambda x: x[x > 0].sum(),
    "aten.convolution": lambda x: nn.functional.conv_transpose1d(
        x[None], torch.ones(1, 1, 1)
    )[0],
}


@pytest.mark.parametrize("operator", UNSUPPORTED)
def test_operators_that_are_not_supported_are_named_with_their_line(operator):
    bad = module(lambda self, x, y, tau, t: y + UNSUPPORTED[operator](self.p * x))
    with pytest.raises(NotImplementedError) as caught:
        dd.from_torch(bad)
    message = str(caught.value)
    assert f"`{operator}" in message and "test_torch_bad_input.py:" in message


def branch(self, x, y, tau, t):
    if x[0] > 0:
        return y
    return -y


def loop(self, x, y, tau, t):
    while x.sum() < 10:
        x = 2 * x
    return y * x


def count(self, x, y, tau, t):
    self.calls += 1
    return y * self.calls


def remember(self, x, y, tau, t):
    self.seen += x.sum()
    return y * self.seen


def without_slope(self, x, y, tau, t):
    with torch.no_grad():
        rate = self.p * x
    return rate * y


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, *slopes):
        return 3 * slopes[0]


LINE = r"test_torch_bad_input\.py:\d+: `"
# A module, what is said of it, and the kind of error, if it is no `ValueError`.
REFUSED = {
    "branch": (module(branch), f"decides by the value of .*{LINE}if x"),
    "loop": (module(loop), "torch.where.* run loops a fixed number"),
    "number": (
        module(lambda self, x, y, tau, t: y * t.item()),
        r"takes a number out of a tensor, as `\.item\(\)`",
        NotImplementedError,
    ),
    "numpy": (
        module(lambda self, x, y, tau, t: y * torch.tensor(x.detach().numpy())),
        f"torch.export cannot follow .*{LINE}",
    ),
    "device": (
        module(lambda self, x, y, tau, t: (y * self.p).to("cuda")),
        f"moves a tensor to the device 'cuda' at .*{LINE}",
    ),
    "new on a device": (
        module(lambda self, x, y, tau, t: y + torch.zeros(1, device="meta")),
        "moves a tensor to the device 'meta'",
    ),
    "counter": (module(count, calls=0), "keeps state from one call"),
    "memory": (
        module(remember, seen=nn.Buffer(torch.zeros(()))),
        "changes its buffer 'seen': it keeps state",
    ),
    "random": (
        module(lambda self, x, y, tau, t: y + torch.rand(1)),
        "two results for the same arguments: it is random",
    ),
    "no slope": (module(without_slope), "derivative for 'p' .*no_grad"),
    "own slope": (
        module(lambda self, x, y, tau, t: Doubled.apply(self.p * y)),
        "derivative for 'p' that is not the one of its operations",
    ),
    "float32": (
        module(lambda self, x, y, tau, t: (y * self.p).float()),
        r"returned torch\.float32.*double precision",
    ),
    "integers": (
        module(lambda self, x, y, tau, t: (y > x).long()),
        r"returned torch\.int64",
    ),
    "two tensors": (
        module(lambda self, x, y, tau, t: (x, y)),
        "must return one tensor, but returned tuple",
        TypeError,
    ),
    "nothing": (
        module(lambda self, x, y, tau, t: None),
        "must return one tensor, but returned NoneType",
        TypeError,
    ),
    "matrix": (
        module(lambda self, x, y, tau, t: torch.outer(x, y) * torch.ones(3, 1, 1)),
        r"returned shape \(3, 1, 1\) for arguments of the shapes \(1,\), \(1,\), \(\)",
    ),
    "dropout": (
        module(lambda self, x, y, tau, t: self.layer(y), layer=nn.Dropout(0.2)),
        r"has Dropout \('layer'\) in training mode.*\.eval\(\)",
    ),
    "batch norm": (
        module(lambda self, x, y, tau, t: self.net(y), net=nn.BatchNorm1d(2)),
        r"has BatchNorm1d \('net'\) in training mode",
    ),
    "hidden dropout": (
        module(lambda self, x, y, tau, t: nn.functional.dropout(self.p * y)),
        "it is random or keeps state|It is dropout in training mode",
        (ValueError, NotImplementedError),  # by chance twice the same, at first
    ),
    "lazy": (
        module(lambda self, x, y, tau, t: self.net(y), net=nn.LazyLinear(1)),
        "is lazy: the shape of 'net.weight' is not known",
    ),
    "complex": (
        module(lambda self, x, y, tau, t: y, c=nn.Parameter(torch.ones(1) * 1j)),
        "the complex tensor 'c'",
    ),
    "a class": (tm.Logistic, "but got the class `Logistic`", TypeError),
    "a function": (torch.tanh, "`module` must be an instance", TypeError),
    "two inputs": (nn.Bilinear(1, 1, 1), r"takes \(input1, input2\), but", TypeError),
}


@pytest.mark.parametrize("case", REFUSED)
def test_modules_that_will_not_do_are_refused(case):
    bad, message, *kind = REFUSED[case]
    with pytest.raises(kind[0] if kind else ValueError, match=message):
        dd.from_torch(bad)


def test_compiled_modules_are_refused():
    for compiler in (torch.jit.script, torch.compile):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch deprecates its own parts
            compiled = compiler(tm.Logistic(1.0, 1.0))
        with pytest.raises(TypeError, match="is a compiled module. Give the plain"):
            dd.from_torch(unchecked(compiled))


def test_errors_of_the_user_pass_as_they_are():
    bad = module(lambda self, x, y, tau, t: self.rate * y)
    with pytest.raises(AttributeError, match="'rate'") as caught:
        dd.from_torch(bad)
    assert "shapes (1,), (1,), (), (). No other d" in caught.value.__notes__[0]
    torch.manual_seed(1)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        dd.from_torch(tm.Gated(), dimension=3)


def test_a_dimension_is_a_positive_integer_of_a_right_hand_side():
    for dimension in (0, -1, 2.0, "2"):
        with pytest.raises(ValueError, match="`dimension` must be a positive integer"):
            dd.from_torch(tm.Logistic(1.0, 1.0), dimension=unchecked(dimension))
    with pytest.raises(TypeError, match="Only a right-hand side has a `dimension`"):
        dd.from_torch(tm.Periodic(1.0, 1.0, 1.0), dimension=1)


def test_a_state_of_another_dimension_says_what_to_do():
    rhs = dd.from_torch(tm.Logistic(1.0, 1.0))
    with pytest.raises(ValueError, match=r"from_torch\(module, dimension=2\)"):
        dd.Problem(rhs, dd.Constant([1.0, 2.0]), 1.0)


def test_an_equation_without_delay_is_announced():
    with pytest.warns(UserWarning, match="does not use `y`, the delayed state"):
        dd.from_torch(module(lambda self, x, y, tau, t: -self.p * x))


@pytest.mark.parametrize("name", ["rhs", "history"])
def test_a_module_that_was_not_converted_says_what_to_do(name):
    parts = {"rhs": dd.models.Logistic(1, 1), "history": dd.Constant(1.0)}
    parts[name] = tm.Logistic(1.0, 1.0)
    with pytest.raises(TypeError, match=f"`{name}` is a torch module.*from_torch"):
        dd.Problem(**parts, tau=1.0)


def test_torch_that_is_missing_is_asked_for():
    code = """
import sys
sys.modules["torch"] = None
import ddefind as dd
for use in (lambda: dd.from_torch(1), lambda: dd.torch.DelayODE):
    try:
        use()
    except ImportError as error:
        print(error)
"""
    wanted = 'PyTorch, which is not installed: `pip install "ddefind[torch]"`'
    assert python("-c", code).stdout.count(wanted) == 2


def test_torch_that_is_too_old_is_refused():
    check_version("2.13.0")
    check_version("3.0.0.dev20270101+cu130")
    with pytest.raises(ImportError, match=r"2\.13 or newer, but 2\.9\.1\+cpu is"):
        check_version("2.9.1+cpu")


class From(nn.Module):
    def forward(self, t, z):
        return z


def test_delay_odes_refuse_what_they_cannot_use():
    rhs, history = tm.Logistic(1.0, 1.0), tm.Periodic(0.1, 1.0, 1.0)
    bad = [
        ((dd.models.Logistic(1, 1), history, 1.0), "`rhs` must be an instance such"),
        ((rhs, dd.Constant(1.0), 1.0), "`history` must be an instance such as"),
        ((history, history, 1.0), r"takes \(t\), but a right-hand side is"),
        ((rhs, nn.Buffer, 1.0), "`history` must be an instance"),
        ((rhs, history, "long"), "`tau` must be a number, but got 'long'"),
        ((rhs, history, -1.0), "`tau` must be positive and finite, but is -1"),
        ((rhs, history, nn.Parameter(torch.ones(2))), "`tau` must be one .*number"),
    ]
    for arguments, message in bad:
        with pytest.raises((TypeError, ValueError), match=message):
            DelayODE(*arguments)
    with pytest.raises(TypeError, match="`solver` must be an instance"):
        DelayODE(rhs, history, 1.0, solver=unchecked(dd.RK4))
    with pytest.raises(ValueError, match="`steps_per_delay` must be a positive"):
        DelayODE(rhs, history, 1.0, steps_per_delay=0)
    moody = module(lambda self, x, y, tau, t: self.d(y), d=nn.Dropout(0.1))
    with pytest.raises(ValueError, match="`rhs` has Dropout .* in training mode"):
        DelayODE(moody, history, 1.0)
    model = DelayODE(moody.eval(), history, 1.0)
    model.train()
    with pytest.raises(ValueError, match="`rhs` has Dropout .* in training mode"):
        model([1.0])


def test_delay_odes_refuse_bad_times_and_rows():
    def refused(match, model, *arguments):
        with pytest.raises((TypeError, ValueError), match=match):
            model(*arguments)

    one = DelayODE(tm.Logistic(1.0, 1.0), tm.Periodic(0.1, 1.0, 1.0), 1.0)
    for times in ([-1.0], [np.nan], [np.inf]):
        refused("`times` must be finite and not negative", one, times)
    for times in (1.0, [[1.0]], []):
        refused("`times` must be a vector; its shape is", one, times)
    called = r"takes \(t\), so call the model as `model\(t"
    refused(called, one, [1.0], torch.ones(3, 1))
    many = DelayODE(tm.Logistic(1.0, 1.0), From(), 1.0)
    refused(r"as `model\(times, z\)`; it got 0", many, [1.0])
    for rows in (torch.tensor(1.0), torch.ones(0, 1)):
        refused("`z` must have a first axis over the", many, [1.0], rows)
    whole = torch.ones(2, 1, dtype=torch.int64)
    refused(r"`z` must be floating-point, not torch\.int", many, [1.0], whole)
    for tau, message in (
        (1e-9, "`tau`, 1e-09, needs more than .* steps"),
        (-0.5, r"is -0.5. If training drove it there.*clamp_"),
    ):
        with torch.no_grad():
            one.tau.fill_(tau)
        refused(message, one, [1.0])
