"""Torch modules, converted: their values and derivatives, names, solutions and fits."""

import copy
import functools

import jax
import numpy as np
import pytest
import torch

import ddefind as dd
from ddefind.paper import EXPERIMENTS
from ddefind.torch._convert import value_and_vjp
from support import torch_modules as tm
from support.fits import Options, unchecked
from support.repeats import mostly_slow
from support.vectors import flatten

KNOWN = {**tm.BUILT, **tm.HISTORIES}


@pytest.fixture(autouse=True)
def double():
    """Tensors that a module makes on its way are float64, as in a conversion."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@functools.cache
def convert(name):
    torch.manual_seed(1)
    module = KNOWN[name]().double()
    options = {"dimension": tm.DIMENSIONS[name]} if name in tm.DIMENSIONS else {}
    return module, dd.from_torch(module, **options)


def by_torch(module, inputs, cotangent):
    """The result, and the derivatives for the learned parameters and the inputs."""
    inputs = [torch.tensor(i, requires_grad=True) for i in inputs]
    learned = [p for p in module.parameters() if p.requires_grad]
    result = module(*inputs).reshape(-1)
    slopes = torch.autograd.grad(
        result, learned + inputs, torch.tensor(cotangent), allow_unused=True
    )
    slopes = [
        np.zeros(p.shape) if s is None else s.numpy()
        for p, s in zip(learned + inputs, slopes)
    ]
    return result.detach().numpy(), slopes


@pytest.mark.parametrize("name", KNOWN)
def test_conversions_agree_with_torch(name):
    module, converted = convert(name)
    program = converted._program
    constants = {name: literal.array for name, literal in converted._constants}
    names = [n for n, p in module.named_parameters() if p.requires_grad]
    assert list(converted._parameters) == names
    for seed in range(3):
        random = np.random.default_rng(seed)
        inputs = tuple(random.normal(size=shape) for shape in program.inputs)
        cotangent = random.normal(size=program.shape)
        value, on_parameters, on_inputs = value_and_vjp(
            program, constants, converted._parameters, inputs, cotangent
        )
        expected, slopes = by_torch(module, inputs, cotangent)
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-10)
        found = [*(on_parameters[n] for n in names), *on_inputs]
        for mine, slope in zip(found, slopes, strict=True):
            np.testing.assert_allclose(mine, slope, rtol=1e-10, atol=1e-10)


def test_equal_architectures_have_equal_structures():
    # What JAX compiled for one serves the other.
    torch.manual_seed(2)
    first, other = convert("gated")[1], dd.from_torch(tm.Gated())
    assert jax.tree.structure(first) == jax.tree.structure(other)
    assert not np.any(first["gate.weight"] == other["gate.weight"])
    assert jax.tree.structure(first) != jax.tree.structure(convert("residual")[1])


class Power(torch.nn.Module):
    def __init__(self, exponent, shift):
        super().__init__()
        self.exponent, self.shift = exponent, torch.tensor(shift)

    def forward(self, x, y, tau, t):
        return y**self.exponent - torch.stack([self.shift])


def test_constants_make_a_difference():
    one = dd.from_torch(Power(2, 0.5))
    others = [Power(2, 0.5), Power(3, 0.5), Power(2, 0.25)]
    same = [
        jax.tree.structure(dd.from_torch(o)) == jax.tree.structure(one) for o in others
    ]
    assert same == [True, False, False]


def paper_modules(model):
    """The paper's experiment with torch modules, from its own start."""
    start = EXPERIMENTS[model].start
    rhs, history = start.rhs, start.history
    names = {"exponential": "Exponential", "logistic": "Logistic", "enso": "ENSO"}
    names |= {"cheyne": "Cheyne", "hiv": "HIV"}
    numbers = {k: float(v) for k, v in vars(rhs).items() if isinstance(v, jax.Array)}
    arrays = {k: np.asarray(v).squeeze().tolist() for k, v in vars(history).items()}
    return (
        getattr(tm, names[model])(**numbers),
        getattr(tm, type(history).__name__)(**arrays),
    )


def paper_problem(model, **options):
    rhs, history = paper_modules(model)
    d = EXPERIMENTS[model].start.dimension
    tau = EXPERIMENTS[model].start.tau
    return dd.Problem(
        dd.from_torch(rhs, dimension=d), dd.from_torch(history), tau, **options
    )


def paper_options(model) -> Options:
    n = EXPERIMENTS[model].steps_per_delay
    return dict(solver=dd.RK2(), steps_per_delay=n, loss=dd.Integral(dd.L2()))


@pytest.mark.parametrize("model", mostly_slow(EXPERIMENTS, ("cheyne", "hiv")))
def test_the_papers_models_have_the_native_solutions_and_gradients(model):
    native, mine = EXPERIMENTS[model].start, paper_problem(model)
    t, solver, n = np.linspace(0, 3, 7), dd.RK2(), EXPERIMENTS[model].steps_per_delay
    solutions = [dd.solve(p, 3.0, solver, n)(t) for p in (native, mine)]
    np.testing.assert_allclose(*solutions, rtol=1e-10)
    (value, slope), (expected, exact) = (
        dd.value_and_grad(p, EXPERIMENTS[model].clean, **paper_options(model))
        for p in (mine, native)
    )
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    slope, exact = flatten(slope)[0], flatten(exact)[0]
    size = abs(exact).max()
    np.testing.assert_allclose(slope, exact, rtol=1e-10, atol=1e-10 * size)


@pytest.mark.parametrize("model", mostly_slow(EXPERIMENTS, ("hiv",)))
def test_the_papers_models_have_the_native_fits(model):
    fits = [
        dd.fit(p, EXPERIMENTS[model].clean, epochs=40, **paper_options(model))
        for p in (EXPERIMENTS[model].start, paper_problem(model))
    ]
    assert fits[1].names == fits[0].names
    np.testing.assert_allclose(fits[1].best, fits[0].best, rtol=1e-8)


def test_what_a_user_does_with_a_problem():
    problem, data = paper_problem("logistic"), EXPERIMENTS["logistic"].clean
    loss, gradient = dd.value_and_grad(
        problem, data, loss=dd.Integral(dd.L2()), gradient=dd.Adjoint()
    )
    assert loss > 0 and gradient.tau.shape == gradient.rhs.theta_0.shape == ()
    assert unchecked(gradient.rhs)["theta_0"] is gradient.rhs.theta_0
    parameters = {
        "tau": dd.Parameter(start=1, lower=0.1, upper=9),
        "history.b": dd.Tied("rhs.theta_1"),
        "theta_0": dd.Fixed(2.5),
    }
    how: Options = {"solver": dd.RK2(), "steps_per_delay": 10, "epochs": 30}
    how |= {"loss": dd.Integral(dd.L1()), "optimizer": dd.Adam(0.03)}
    fit = dd.fit(problem, data, parameters=parameters, **how)
    assert fit.names == ("theta_1", "A", "omega", "tau")
    assert 0.1 < fit.values["tau"] < 9 and fit.loss < fit.losses[0]
    learned = fit.to_torch()
    assert isinstance(learned.rhs, tm.Logistic)
    assert isinstance(learned.history, tm.Periodic)
    assert learned.rhs.theta_0.item() == 2.5 and learned.tau == fit.values["tau"]
    assert learned.history.b.item() == learned.rhs.theta_1.item()


def test_many_fits_side_by_side():
    problem, data = paper_problem("enso"), EXPERIMENTS["enso"].clean
    starts = [{"tau": tau} for tau in (5.5, 6.0, 6.5)]
    options: Options = dict(epochs=20, solver=dd.RK2(), starts=starts)
    batch = dd.fit_many(problem, data, **options)
    native = dd.fit_many(EXPERIMENTS["enso"].start, data, **options)
    np.testing.assert_allclose(batch.best, native.best, rtol=1e-9)
    learned = batch[2].to_torch().rhs
    np.testing.assert_allclose(learned.theta_2.item(), batch[2].values["theta_2"])


def test_names_are_those_of_torch():
    rhs, history = convert("residual")[1], convert("sequential")[1]
    names = list(dd.parameter_values(dd.Problem(rhs, history, 1.0)))
    assert names[:2] == ["blocks.0.weight[0,0]", "blocks.0.weight[0,1]"]
    # What begins with a number alone would say nothing.
    assert "out.weight[1,3]" in names and "history.0.weight[0,0]" in names
    assert not [name for name in names if name[0].isdigit()]
    assert repr(rhs).startswith("from_torch(Residual: blocks.0.weight, blocks.0.bias")
    with pytest.raises(AttributeError, match="no parameter 'weights'; .* out.weight"):
        rhs.weights  # noqa: B018


def test_constants_are_not_learned():
    problem = dd.Problem(convert("frozen")[1], dd.Constant([1.0, 2.0]), 1.0)
    names = ["rate", "unused", "b[0]", "b[1]", "tau"]
    assert list(dd.parameter_values(problem)) == names
    names = list(convert("Fourier features")[1]._parameters)
    assert names == ["last.weight", "last.bias"]
    # A weight with two names is one parameter, under the first.
    assert "two.weight" not in convert("tied weights")[1]._parameters


def test_a_learned_module_comes_back_as_it_was():
    rhs = tm.Frozen().to(torch.float32)
    before = copy.deepcopy(rhs.state_dict())
    problem = dd.Problem(dd.from_torch(rhs), dd.Constant([1.0, 2.0]), 1.0)
    data = dd.Data(np.linspace(0, 0.4, 11), np.ones((11, 2)))
    fit = dd.fit(problem, data, epochs=20, solver=dd.Euler())
    learned = fit.to_torch()
    assert type(learned.rhs) is tm.Frozen and learned.history is None
    assert learned.rhs.rate.dtype == torch.float32 and learned.rhs.rate.requires_grad
    np.testing.assert_allclose(learned.rhs.rate.item(), fit.values["rate"], rtol=1e-7)
    assert learned.rhs.rate.item() != before["rate"].item()
    assert torch.equal(learned.rhs.known, before["known"])
    assert all(torch.equal(v, before[k]) for k, v in rhs.state_dict().items())
    exact = problem.rhs.to_torch().to(torch.float64).rate
    assert exact.item() == before["rate"].item()


def test_a_later_change_of_the_torch_module_changes_nothing_here():
    module = tm.Logistic(1.0, 2.0)
    converted = dd.from_torch(module)
    with torch.no_grad():
        module.theta_0.fill_(9.0)
    back = converted.to_torch()
    assert isinstance(back, tm.Logistic)
    assert float(converted.theta_0) == 1.0 == back.theta_0.item()


def test_the_dimension_is_the_smallest_that_works_or_given():
    assert dd.from_torch(tm.Logistic(1.0, 1.0))._program.shape == (1,)
    assert convert("compartments")[1]._program.shape == (4,)
    assert dd.from_torch(tm.Logistic(1.0, 1.0), dimension=70)._program.shape == (70,)


def test_without_torch_modules_there_is_none_to_give_back():
    data = dd.Data(np.linspace(0, 2, 11), np.ones((11, 1)))
    fit = dd.fit(EXPERIMENTS["exponential"].start, data, optimizer=dd.Adam(), epochs=1)
    with pytest.raises(TypeError, match="Neither `rhs` nor `history` is a torch"):
        fit.to_torch()
