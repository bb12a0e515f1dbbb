r"""The experiments of a study, as compiled programs need them.

Every experiment has a problem of the same shape, in which only constants differ: known
values, tables of inputs, doses. They are stacked, so that one loop inside a compiled
program serves any number of experiments. Experiment e has the free values
$\theta_e = P_e\,\theta + c_e$, and adds to the normal equations of the study

$$G = \sum_e \begin{pmatrix} 1 & 0 \\ 0 & P_e \end{pmatrix}^T G_e
      \begin{pmatrix} 1 & 0 \\ 0 & P_e \end{pmatrix}.$$"""

from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._problem.free_parameters import FreeParameters
from .._problem.problem import Problem
from .._util.buffers import read


@final
class Experiments(eqx.Module):
    """What differs between the experiments of a study.

    - `free`: the free values of one experiment.
    - `learned`, `fixed`: the parameters of the problems with and without free values,
      each array with a first axis over the experiments.
    - `selection` [experiments, local values, joint values] and `known` [experiments,
      local values]: the P and the c above.
    - `rows` [experiments, 2]: the first row of each in the data, and the first after
      it.
    - `ends` [experiments]: the last times.
    """

    free: FreeParameters = eqx.field(static=True)
    learned: Problem
    fixed: Problem
    selection: Any
    known: Any
    rows: Any
    ends: Any

    @property
    def count(self) -> int:
        """The number of experiments."""
        return self.known.shape[0]

    def local(self, e: Any, theta: jax.Array) -> jax.Array:
        """The free values of experiment `e`."""
        picked = jnp.sum(read(self.selection, e) * theta, axis=1)
        return picked + read(self.known, e)

    def joint(self, e: Any, gram: jax.Array) -> jax.Array:
        """The normal equations of experiment `e` for the joint values. Products are
        written as sums, which XLA compiles into loops."""
        P = read(self.selection, e)
        P = jnp.pad(P, ((1, 0), (1, 0))).at[0, 0].set(1.0)
        half = jnp.sum(gram[:, :, None] * P[None], axis=1)
        return jnp.sum(P[:, :, None] * half[:, None, :], axis=0)

    def joint_of(self, e: Any, rows: jax.Array) -> jax.Array:
        """Rows [..., 1 + local values] of experiment `e`, values and derivatives, with
        the derivatives for the joint values instead. A joint value is at most one of
        the local values of an experiment."""
        selection = read(self.selection, e)
        derivatives = jnp.take(rows[..., 1:], jnp.argmax(selection, axis=0), axis=-1)
        is_used = jnp.any(selection > 0, axis=0)
        derivatives = jnp.where(is_used, derivatives, 0.0)
        return jnp.concatenate([rows[..., :1], derivatives], axis=-1)


def stack(problems: Sequence[Problem]) -> Problem:
    """Problems, or parts of them, with a first axis over them in each array. What is
    no array must be the same in all."""

    def stacked(*leaves):
        if not _is_array(leaves[0]):
            return leaves[0]
        array = np.stack([np.asarray(leaf) for leaf in leaves])
        # An array of NumPy is a table of constants, and stays one.
        return array if isinstance(leaves[0], np.ndarray) else jnp.asarray(array)

    return jax.tree.map(stacked, *problems)


def pick(tree: Any, e: Any) -> Any:
    """The part of a stacked tree that belongs to experiment `e`."""

    def picked(leaf):
        if not _is_array(leaf):
            return leaf
        return leaf[e] if isinstance(e, int) else read(leaf, e)

    return jax.tree.map(picked, tree)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)
