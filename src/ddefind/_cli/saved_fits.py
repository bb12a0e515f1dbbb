"""Reading fits that were saved, for commands that compute with them."""

from pathlib import Path

from .._results.estimate import Estimate
from .._results.load import SavedFit, load
from .._results.result import FitResult
from .._util.errors import DataError
from .fit_settings import combine_settings
from .model_file import read_model
from .output_folder import CONFIG
from .parse_options import OptionError


def load_fit(path: Path) -> Estimate:
    """Return a fit by least squares, with its model."""
    fit = load_any_fit(path)
    if not isinstance(fit, Estimate):
        raise OptionError(
            f"{path}: this fit is by gradient descent, which has no error bars and no "
            "likelihood. Fit with least squares."
        )
    return fit


def load_any_fit(path: Path) -> Estimate | FitResult:
    """Return a fit with its model.

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
        try:
            model = read_model(vars(settings))
        except DataError as error:
            raise OptionError(
                f"{path}: the model of this fit is code, and the folder's copy of it "
                f"cannot be read. {error}"
            ) from None
        fit = load(path, problem=model)
        assert not isinstance(fit, SavedFit)
    return fit
