"""Reading fits that were saved, for commands that compute with them."""

from pathlib import Path

from .._results.estimate import Estimate
from .._results.load import SavedFit, load
from .fit_settings import combine_settings
from .model_file import read_model
from .output_folder import CONFIG
from .parse_options import OptionError


def load_fit(path: Path) -> Estimate:
    """Return a fit by least squares, with its model.

    A model that is code is not in the file of the fit. A folder of `ddefind fit` has a
    copy of the code, which is run."""
    fit = load(path)
    if isinstance(fit, SavedFit):
        config = path / CONFIG
        if not config.is_file():
            raise OptionError(
                f"{path}: the model of this fit is code, which the file does not hold. "
                "Give the folder that `ddefind fit --out` wrote."
            )
        settings = combine_settings(config, {})
        model = read_model(
            settings.equation,
            settings.model,
            settings.history,
            settings.observe,
            tuple(settings.inputs),
        )
        fit = load(path, problem=model)
    if not isinstance(fit, Estimate):
        raise OptionError(
            f"{path}: this fit is by gradient descent, which has no error bars and no "
            "likelihood. Fit with least squares."
        )
    return fit
