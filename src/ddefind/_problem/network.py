"""The multilayer perceptron behind the neural models and histories."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

# Up to this many weights a layer is multiplied out and summed, which is faster than a
# matrix product. Larger ones, for fits side by side, would leave the compiled loop.
SMALL = 64


def product(weight, x):
    """`weight @ x` for a vector `x`, in the faster way for its size."""
    if weight.size <= SMALL:
        return jnp.sum(weight * x, axis=-1)
    return weight @ x


@final
class Network(eqx.Module):
    r"""$W_L \tanh(\dots \tanh(W_0 x + c_0) \dots) + c_L$.

    Weights are drawn uniformly from $\pm 1/\sqrt{\text{inputs}}$, biases are zero.
    """

    weights: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]

    def __init__(self, inputs: int, outputs: int, width: int, depth: int, *, seed: int):
        for name, value in dict(width=width, outputs=outputs).items():
            if value < 1:
                raise ValueError(f"`{name}` must be at least 1, but got {value}.")
        if depth < 0:
            raise ValueError(f"`depth`, the hidden layers, must be >= 0; got {depth}.")
        random = np.random.default_rng(seed)
        sizes = [inputs, *[width] * depth, outputs]
        self.weights = tuple(
            jnp.asarray(random.uniform(-1, 1, (m, n)) / np.sqrt(n))
            for n, m in zip(sizes, sizes[1:])
        )
        self.biases = tuple(jnp.asarray(np.zeros(m)) for m in sizes[1:])

    def __call__(self, x: jax.Array) -> jax.Array:
        *hidden, last = zip(self.weights, self.biases)
        for weight, bias in hidden:
            x = jnp.tanh(product(weight, x) + bias)
        weight, bias = last
        return product(weight, x) + bias
