"""How sure a fit is, what the data determine, and what follows from it.

`covariance.py` holds standard errors, `profile_likelihood.py` the intervals,
`identifiability.py` the verdicts; `residual_tests.py` and `model_selection.py` judge
the model; `bootstrap.py` and `posterior.py` resample; `predict.py`, `derived.py` and
`stability.py` use the fit, by the `delta_method.py`. Begin with `covariance.py`.

May import: `_util`, `_data`, `_problem`, `_equation`, `plots`, `_loss`,
`_least_squares`.
"""
