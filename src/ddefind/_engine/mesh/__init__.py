"""Fixed steps on a mesh, for any number of constant delays and for switches in time.

Begin with `mesh.py`: the breaking points, and the nodes between them. `march.py` finds
the delayed states, `reverse.py` is the gradient, by the adjoint of every step, and
`sensitivity.py` the solution with its derivatives.
"""
