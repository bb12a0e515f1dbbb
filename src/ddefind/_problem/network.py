"""The multilayer perceptron that neural models and histories are made of."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

# A layer with at most this many weights is computed as an elementwise product and a
# sum, which is faster than a matrix product. In a batch of fits, the elementwise
# product of a larger layer would not be fused into the compiled loop.
MAX_ELEMENTWISE_WEIGHTS = 64


def matrix_vector_product(weight: jax.Array, x: jax.Array) -> jax.Array:
    """`weight @ x` for a vector `x`, by the faster way for the size of `weight`."""
    if weight.size <= MAX_ELEMENTWISE_WEIGHTS:
        return jnp.sum(weight * x, axis=-1)
    return weight @ x


@final
class Network(eqx.Module):
    r"""A multilayer perceptron, $W_L \tanh(\dots \tanh(W_0 x + c_0) \dots) + c_L$.

    It has `depth` = L hidden layers of `width` units each. The initial weights of a
    layer with n inputs are drawn uniformly between $\pm 1/\sqrt{n}$, and the initial
    biases are zero.
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

    @property
    def outputs(self) -> int:
        """The number of components of the result."""
        return len(self.biases[-1])

    @property
    def width(self) -> int:
        """The number of units in each hidden layer; 1 if there is no hidden layer."""
        return len(self.biases[0]) if self.depth > 0 else 1

    @property
    def depth(self) -> int:
        """The number of hidden layers."""
        return len(self.biases) - 1

    def __call__(self, x: jax.Array) -> jax.Array:
        *hidden, last = zip(self.weights, self.biases)
        for weight, bias in hidden:
            x = jnp.tanh(matrix_vector_product(weight, x) + bias)
        weight, bias = last
        return matrix_vector_product(weight, x) + bias
