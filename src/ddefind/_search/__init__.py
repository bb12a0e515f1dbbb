"""Least squares: the best fit, found from many starts with exact derivatives.

In the order of a fit:

- `make_setup.py` makes the `setup.py` of a fit from the problem, the data and the
  `bounds.py`; `noise_setup.py` adds what a noise with a model needs.
- `explore.py` looks for minima from many starts, with networks over a scan of delays.
  `starts.py` draws these in the natural units that the `symmetries.py` of the model
  show, and moves them by `gradient_matching.py` where all states were measured, and
  elsewhere by fits with a `guide.py`.
- `normal_equations.py` adds the solution of the equation with its derivatives up to the
  sum of squares and its linearisation, and `likelihood.py` to a likelihood where the
  noise has a model.
- `levenberg_marquardt.py` makes the steps; `batches.py` runs many fits on all cores,
  and ranks their minima by the rule of `same_minimum.py`.
- `search.py` estimates the noise, refines the steps, and looks around where the steps
  end without convergence.
- `try_adaptive.py` and `other_history.py` search again with another solver or history.

Begin with `search.py`, which directs all of this.

May import: `_util`, `noise`, `_data`, `_problem`, `_engine`, `_loss`.
"""
