"""What importing ddefind sets in JAX: double precision, and loops as machine code.

Both respect what the user has set already, and neither loads JAX:

- `JAX_ENABLE_X64` in the environment decides the precision; without it we take float64,
  since least squares and delays need more than seven digits.
- XLA on a CPU interprets a loop operation by operation, about a microsecond each,
  unless the loop's data are small. `xla_cpu_small_while_loop_byte_threshold` raises
  that limit, so that a whole solve becomes one piece of machine code, more than ten
  times faster. It is an internal option of XLA: everything stays right without it, only
  slower. It has to be set before JAX computes for the first time; a value of the user's
  in `XLA_FLAGS` is kept."""

import os
import sys

_LOOP_OPTION = "xla_cpu_small_while_loop_byte_threshold"


def configure() -> None:
    flags = os.environ.get("XLA_FLAGS", "")
    if _LOOP_OPTION not in flags and "xla_backend_extra_options" not in flags:
        option = f"--xla_backend_extra_options={_LOOP_OPTION}=1000000000"
        os.environ["XLA_FLAGS"] = f"{flags} {option}".strip()
    if "JAX_ENABLE_X64" in os.environ:
        return
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", True)
    else:
        os.environ["JAX_ENABLE_X64"] = "1"  # JAX reads it when it is imported
