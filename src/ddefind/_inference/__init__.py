"""Inference: how precise a fit is, what the data determine, and what follows from it.

- `covariance.py` holds the standard errors, and `identifiability.py` the verdicts on
  each parameter; `combinations.py` finds what is determined where single parameters are
  not, and `profile_intervals.py` delays whose order is not.
- `profile_intervals.py` computes the confidence intervals, which cover all minima that
  fit the data; `profile_likelihood.py` follows the profiles to the ends of these.
- `residual_tests.py` and `fitted_noise.py` judge the model, and `explained.py`
  says how much it explains.
- `assessment.py` computes what is printed with a fit: intervals, verdicts and tests.
- `disturbed.py` does so for fits with process noise, and predicts their paths.
- `fitted_noise.py` knows the noise of fits by likelihood.
- `learned_function.py` is what a network has learned, over the `learned_function.py`;
  `covariance.py` counts its weights.
- `bootstrap.py` and `posterior.py` sample the distribution of the estimates.
- `predict.py`, `derived.py` and `stability.py` draw conclusions from the fit, with
  standard errors by the `covariance.py`. Stability needs `stability.py` and
  `characteristic_roots.py`, for which `characteristic_roots.py` and its
  `characteristic_roots.py` hold the equation.

Begin with `covariance.py`.

May import: `_util`, `noise`, `_data`, `_problem`, `_equation`, `_adaptive`, `_solve`,
`plots`, `_loss`, `_search`, `_shooting`.
"""
