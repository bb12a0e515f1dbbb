"""The Cramér-Rao bound of the parameters of a record, from the integrator that is not
ours."""

from collections.abc import Mapping

import numpy as np

from .integrate import integrate

# The relative change of a parameter in a central difference.
_CHANGE = 1e-4


def standard_deviations(
    text: str, values: Mapping[str, float], times: np.ndarray, noise: np.ndarray
) -> dict[str, float]:
    r"""The least standard deviations of unbiased estimates: the roots of the diagonal
    of $(J^T J)^{-1}$, where $J$ holds the derivatives of the states at `times` by the
    parameters, in units of `noise`. A state with infinite noise is not measured."""
    columns = []
    for name, value in values.items():
        ends = [
            integrate(text, {**values, name: value * factor}, times, finer=2)
            for factor in (1 - _CHANGE, 1 + _CHANGE)
        ]
        assert ends[0] is not None and ends[1] is not None
        columns.append(((ends[1] - ends[0]) / (2 * _CHANGE) / noise).ravel())
    # The derivatives are relative ones, so that their sizes are alike.
    covariance = np.linalg.pinv(np.stack(columns) @ np.stack(columns).T, rcond=1e-14)
    relative = np.sqrt(np.diag(covariance))
    sizes = np.abs(list(values.values()))
    return dict(zip(values, (relative * sizes).tolist()))
