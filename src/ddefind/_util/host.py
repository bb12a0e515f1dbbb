"""Computing on the processor's cores where JAX has an accelerator, too."""

from contextlib import AbstractContextManager, nullcontext

import jax


def on_host() -> AbstractContextManager:
    """A context, for one thread, in which JAX computes on the cores of the processor.

    Programs that take many small steps, one after the other, are far slower on an
    accelerator, which needs microseconds to begin each of them."""
    try:
        device = jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # JAX was told to leave the processor alone.
        return nullcontext()
    return jax.default_device(device)
