"""The settings of a fit as arguments of `ddefind.fit` and `ddefind.fit_many`."""

from typing import TYPE_CHECKING, Any

from .fit_settings import ALL, MULTIPLE_SHOOTING, FitSettings
from .network_option import networks_of
from .noise_option import noise_models
from .parse_options import Bounds, read_prior

if TYPE_CHECKING:
    from .._equation.equation import Equation
    from .._problem.problem import Problem


def fit_arguments(settings: FitSettings, model: "Equation | Problem") -> dict[str, Any]:
    """Return the arguments, without model and data."""
    return {
        "noise": noise_models(settings.noise),
        "networks": networks_of(settings.network),
        "parameters": _parameters(settings, model),
        "optimizer": _method(settings),
        "seed": settings.seed,
        "solver": _solver(settings),
        "steps_per_delay": settings.steps,
        "level": 0.95 if settings.level is None else settings.level,
    }


def _method(settings: FitSettings) -> Any:
    """Return the method, as the argument `optimizer` of `ddefind.fit`."""
    import ddefind as dd

    if settings.method is None and settings.starts is None:
        return None
    starts = {} if settings.starts is None else {"starts": settings.starts}
    if settings.method == MULTIPLE_SHOOTING:
        return dd.MultipleShooting(**starts)
    return dd.LeastSquares(**starts)


def _solver(settings: FitSettings) -> Any:
    """Return the solver, as the argument of `ddefind.fit`."""
    import ddefind as dd

    if settings.solver in (None, "auto"):
        return "auto"
    if settings.solver == "rk4":
        return dd.RK4()
    solver = dd.Tsit5 if settings.solver == "tsit5" else dd.Radau
    return solver() if settings.rtol is None else solver(rtol=settings.rtol)


def _parameters(settings: FitSettings, model: "Equation | Problem") -> dict[str, Any]:
    """Return what is known of each parameter, as the argument of `ddefind.fit`."""
    import ddefind as dd

    bounds, priors = dict(settings.bounds), settings.prior
    for name in _positive(settings, model):
        lower, upper = bounds.get(name, Bounds())
        bounds[name] = Bounds(max(lower, 0.0), upper)
    parameters: dict[str, Any] = {k: dd.Fixed(v) for k, v in settings.set.items()}
    own = dict.fromkeys(settings.per_experiment or ())
    for name in {**settings.start, **bounds, **priors, **own}:
        lower, upper = bounds.get(name, (None, None))
        prior = _prior(priors[name]) if name in priors else None
        parameters[name] = dd.Parameter(
            settings.start.get(name),
            lower,
            upper,
            prior,
            per_experiment=True if name in own else None,
        )
    return parameters


def _positive(settings: FitSettings, model: "Equation | Problem") -> list[str]:
    """Return the parameters that are positive by `--positive`."""
    from .model_file import names_in_equation

    names = list(settings.positive or ())
    if ALL not in names:
        return names
    names.remove(ALL)
    known = {*names, *settings.set}
    return names + [name for name in names_in_equation(model) if name not in known]


def _prior(text: str) -> Any:
    """Return a prior, as `ddefind.fit` takes it."""
    import ddefind as dd

    kind, center, spread = read_prior(text)
    distribution = dd.Gaussian if kind == "normal" else dd.LogNormal
    return distribution(center, spread)
