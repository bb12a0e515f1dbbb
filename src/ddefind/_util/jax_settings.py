"""What importing ddefind sets in JAX: double precision, and fast loops on a CPU.

Both settings respect what the user has set already, and neither loads JAX:

- Precision: ddefind computes in float64, since least squares and delays need more than
  seven digits. `JAX_ENABLE_X64` in the environment overrides this.
- Loops: XLA's CPU backend runs a loop one operation at a time, about a microsecond
  each, unless the loop's data are smaller than
  `xla_cpu_small_while_loop_byte_threshold`. ddefind raises that limit, so that a whole
  solve is compiled to one piece of machine code, which is more than ten times faster.
  The option is internal to XLA: without it all results are the same, only later. It
  must be set before JAX computes for the first time. A value that `XLA_FLAGS` already
  holds is kept.
"""

import os
import sys

_LOOP_OPTION = "xla_cpu_small_while_loop_byte_threshold"


def configure_jax() -> None:
    """Set float64 and compiled loops, in the environment or in JAX if it is loaded."""
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
