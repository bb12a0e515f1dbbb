"""Small tools that know nothing of delay equations.

Error messages (`errors.py`), the words in which Python and the command line name what
a user can do (`wording.py`), text files and numbers for JSON (`files.py`), what results
show (`shown.py`), progress reports (`progress.py`), what a user's function does that
JAX cannot compile (`users_code.py`), and what the compiled programs need: settings of
JAX (`jax_settings.py`), JAX arrays and rows of buffers (`arrays.py`) and the number of
cores (`machine.py`). Begin with `errors.py`, which says how error messages are written.

May import: nothing."""
