"""Least squares: the best fit, found from many starts with exact derivatives.

In the order of a fit:

- `make_setup.py` makes the `setup.py` of a fit from the problem, the data and the
  `bounds.py`, and chooses its misfit.
- `explore.py` looks for minima from many starts, with networks over a scan of delays.
  `starts.py` draws these in the natural units that the `symmetries.py` of the model
  show, and moves them by `gradient_matching.py` where all states were measured, and
  elsewhere by fits with a `guide.py`.
- `misfit.py` says what a fit makes small: `squares.py`, the weighted sum of squares, or
  `likelihood.py`, where the noise has a model. `normal_equations.py` adds it up over
  the experiments, with its linearisation.
- `levenberg_marquardt.py` makes the steps; `batches.py` runs many fits on all cores,
  and ranks their minima by the rule of `same_minimum.py`.
- `search.py` refines the steps, and looks around where the steps end without
  convergence.
- `try_adaptive.py` and `other_history.py` search again with another solver or history.

Begin with `search.py`, which directs all of this.

May import: `_util`, `noise`, `_data`, `_problem`, `_engine`, `_loss`.
"""
