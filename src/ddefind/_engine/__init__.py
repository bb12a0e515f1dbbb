"""Engines: how a delay equation is solved, with its derivatives.

There are three. Each has a folder with its march, its past, its gradient in reverse and
its sensitivities:

- `aligned/`: fixed steps that divide one constant delay;
- `mesh/`: fixed steps for any number of constant delays, and switches;
- `adaptive/`: adaptive and stiff solvers, for delays of every kind.

`engine.py` chooses among them, and `runge_kutta.py` has the solvers with fixed steps.
`solution.py` is what they give. Begin with `solve.py`.

May import: `_util`, `_problem`.
"""
