"""Inference: how precise a fit is, what the data determine, and what follows from it.

- `covariance.py`: standard errors and the delta method. Begin here.
- `profile_intervals.py`: confidence intervals over all minima that fit the data. They
  rest on `profile.py`; `evidence_intervals.py` serves fits with networks.
- `identifiability.py`: the verdict on each parameter, and combinations that are
  determined where their parts are not, for which `formulas.py` finds formulas.
- `residual_tests.py` and `explained.py` judge the model.
- `assessment.py` computes all that is printed with a fit.
- `system.py`: a fit has a system that follows its equation, or one that is itself
  disturbed; what follows from the fit is asked of it.
- `bootstrap.py` and `posterior.py` sample the distribution of the estimates.
- `predict.py`, `derived.py`, `learned_function.py` and `stability.py` (over
  `characteristic_roots.py`) draw conclusions from a fit.

May import: `_util`, `_data`, `_problem`, `_equation`, `_engine`, `plots`,
`_search`, `_shooting`.
"""
