"""Multiple shooting: fits of systems that are themselves disturbed by noise.

The path that a disturbed system took is unknown. It is estimated together with the free
values, and both kinds of noise with them.

- `nodes.py` holds the path, `defects.py` what the equation misses from node to node.
- `joint_fit.py` fits the path and the free values by least squares.
- `likelihood.py` estimates the noise, and how precise the free values are;
  `noise_levels.py` says which levels of noise there are.
- `innovations.py` computes the residuals, which are independent if the model is right.
- `process_noise.py` is what is kept of it all, and `disturbed_path.py` reads the path
  again, also beyond the data.

Begin with `shooting.py`, which directs all of this.

May import: `_data`, `_problem`, `_solve`, `_least_squares`.
"""
