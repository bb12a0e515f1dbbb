"""Multiple shooting: fits of systems that are themselves disturbed by noise.

The unknown path of a disturbed system is estimated together with the free values and
both kinds of noise.

- `defects.py` has the path, and its deviations from the equation from node to node.
- `joint_fit.py` fits the path and the free values by least squares, and estimates the
  noise and the precision of the free values.
- `process_noise.py` has the levels of noise, computes the residuals, which are
  independent if the model is right, and keeps and reads the path.

Begin with `shooting.py`, which directs all of this.

May import: `_data`, `_problem`, `_engine`, `_search`.
"""
