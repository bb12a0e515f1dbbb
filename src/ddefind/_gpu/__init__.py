"""Programs that make one fit, translated into CUDA: on a GPU each thread makes a fit.

A march has many short steps, one after the other. XLA starts several kernels for each
of them and waits microseconds for every one, and all fits of a batch wait for the one
with the most steps. Here the whole program of a fit, with all its loops, is a single
kernel instead, and a fit takes as long as it alone needs.

The programs are those that the processor runs: `jaxpr.py` takes JAX's own equations of
them, and `translate.py` writes these down in C, with `writer.py`, `elementwise.py`,
`shapes.py`, `reductions.py` and `loops.py`. `values.py` says where an array is: in
variables of its own, or in memory. `program.py` holds translated programs, and
`device.py` runs them with CuPy. What cannot be translated is left to XLA.

May import: nothing.
"""
