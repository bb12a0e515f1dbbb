"""Small tools that know nothing of delay equations.

Settings of JAX, lazy names, error messages, text files, text tables, progress bars, and
the buffers of the compiled loops. Begin with `errors.py`: every message of the package
is written in its way.

May import: nothing.
"""
