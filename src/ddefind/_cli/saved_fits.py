"""Reading fits that were saved, for commands that compute with them."""

from pathlib import Path

from .._equation.equation import Equation
from .._problem.problem import Problem
from .._results.estimate import Estimate
from .._results.load import SavedFit, load
from .fit_settings import FitSettings, combine_settings
from .model_file import read_model
from .output_folder import CONFIG
from .parse_options import OptionError
from .read_experiments import read_data


def load_fit(path: Path) -> Estimate:
    """Return a fit by least squares, with its model.

    A model that is code is not in the file of the fit. A folder of `ddefind fit` has
    copies of its files; code is run."""
    config = path / CONFIG
    settings = combine_settings(config, {}) if config.is_file() else None
    fit = load(path)
    if isinstance(fit, SavedFit):
        if settings is None:
            raise OptionError(
                f"{path}: the model of this fit is code, which the file does not hold. "
                "Give the folder that `ddefind fit --out` wrote."
            )
        fit = load(path, problem=_model(settings))
    if not isinstance(fit, Estimate):
        raise OptionError(
            f"{path}: this fit is by gradient descent, which has no error bars and no "
            "likelihood. Fit with least squares."
        )
    return fit


def _model(settings: FitSettings) -> Equation | Problem:
    """Return the model of a fit, with its inputs and doses."""
    model = read_model(
        settings.equation,
        settings.model,
        settings.history,
        settings.observe,
        tuple(settings.inputs),
    )
    if isinstance(model, Problem) or not (settings.inputs or settings.doses):
        return model
    given = read_data(settings, model).options
    model = model.with_inputs(given.get("inputs", {}))
    return model.with_doses(given["doses"]) if "doses" in given else model
