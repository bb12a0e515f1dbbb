"""Multiple shooting: fits of systems that are themselves disturbed by noise.

The path that a disturbed system took is unknown. It is estimated together with the free
values, and both kinds of noise with them.

- `defects.py` holds the path, and what the equation misses from node to node.
- `joint_fit.py` fits the path and the free values by least squares, and estimates the
  noise and how precise the free values are.
- `process_noise.py` says which levels of noise there are, computes the residuals, which
  are independent if the model is right, and keeps and reads the path.

Begin with `shooting.py`, which directs all of this.

May import: `_data`, `_problem`, `_solve`, `_search`.
"""
