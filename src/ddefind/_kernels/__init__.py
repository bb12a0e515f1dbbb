"""Programs that make one fit, translated into C, for a processor or for a GPU.

A march has many short steps, one after the other. On a GPU XLA starts several kernels
for each of them and waits microseconds for every one, and all fits of a batch wait for
the one with the most steps. On a processor it keeps the small arrays of a step in
memory. Here the whole program of a fit, with all its loops, is one function of C, in
which small arrays are variables. On a GPU it is a kernel, and each thread makes a fit.

The programs are those that XLA compiles: `jaxpr.py` takes JAX's own equations of them,
and `translate.py` writes these down in C, with `writer.py`, `elementwise.py`,
`shapes.py`, `elementwise.py` and `loops.py`. `jaxpr.py` says where an array is: in
variables of its own, or in memory. `program.py` holds translated programs;
`on_processor.py` compiles and runs them with the C compiler, `on_gpu.py` with CuPy, and
`program.py` says which. What cannot be translated is left to XLA.

May import: nothing.
"""
