"""The degrees of freedom of a fit, and the variance of its residuals.

Both are defined here alone. What counts as determined by the data is an argument,
because it differs between the two stages of a fit:

- The *search* (`FitSetup.freedom`) counts every free parameter. It compares many
  unfinished fits with each other and needs one number that is the same for all of them
  and known before the first.
- The *inference* (`Uncertainty.freedom`) looks at the best fit alone and counts only
  the directions in parameter space that the data determine there. A direction without
  influence on the residuals absorbs no noise, and must not cost a degree of freedom.
"""

import math


def degrees_of_freedom(values: int, determined: int) -> int:
    """The number of measured values less that of determined quantities, at least one.

    >>> degrees_of_freedom(values=50, determined=4), degrees_of_freedom(3, 4)
    (46, 1)
    """
    return max(values - determined, 1)


def residual_variance(loss: float, freedom: int, *, is_known: bool) -> float:
    """The variance of the weighted residuals, which is the unit of chi-square.

    It is one where the weights are already those of the noise (`is_known`), and where
    there is no fit (the weighted sum of squares `loss` is not finite). Otherwise it is
    estimated as `loss` over the degrees of freedom."""
    if is_known or not math.isfinite(loss):
        return 1.0
    return max(loss / freedom, 1e-300)
