"""Least squares: the best fit, found from many starts with exact derivatives.

In the order of a fit:

- `setup.py` takes the problem, the data and the bounds.
- `explore.py` looks for minima from many starts. `starts.py` draws these, in the
  `natural_units.py` that the `symmetries.py` of the model show. `gradient_matching.py`
  moves them where all states were measured, and `guided_starts.py`, with the help of a
  `guide.py`, elsewhere; `aliases.py` drops what oscillates unseen.
- `explore_networks.py` does so for models with networks: over a scan of delays.
- `sensitivity.py` solves the equation together with its derivatives;
  `normal_equations.py` adds them up to the sum of squares and its linearisation, and
  `stored_rows.py` keeps them where there are very many free values.
- `levenberg_marquardt.py` makes the steps; `fit_block.py` and `batches.py` run many
  fits on all cores; `kinks.py` looks around where the steps end without convergence.
- `likelihood.py` takes the place of the sum of squares where the noise has models, and
  `noise_setup.py` says where these begin.
- `noise_levels.py` and `degrees_of_freedom.py` estimate the noise, `same_minimum.py`
  says which fits are at one minimum, and `ranking.py` which minimum is the best.

Begin with `search.py`, which directs all of this.

May import: `_util`, `noise`, `_data`, `_problem`, `_adaptive`, `_solve`, `_loss`.
"""
