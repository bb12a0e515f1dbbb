"""Programs that make one fit, translated into C, for a processor or for a GPU.

A march has many short steps, one after the other. On a GPU XLA starts several kernels
for each step and waits microseconds for every one, and all fits of a batch wait for the
one with the most steps. On a processor it keeps the small arrays of a step in memory.
Here the whole program of a fit, with all its loops, is one function of C, in which
small arrays are variables. On a GPU it is a kernel, and each thread makes a fit.

XLA could compile the same programs. `jaxpr.py` reads JAX's equations of a program.
`translate.py` writes it in C, with `functions.py` and `writer.py`, which places arrays
in variables or in memory. `program.py` keeps translated programs and chooses where they
run: `kernels.py` compiles and runs them with the C compiler, or on a GPU with CuPy.
What cannot be translated is left to XLA. Begin with `program.py` and `translate.py`.

May import: nothing.
"""
