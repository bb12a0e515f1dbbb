"""What a loss needs of many data sets, side by side.

Data sets with the same times are prepared together: as one data set whose quantities
are those of all of them."""

from typing import Any

import jax
import numpy as np

from .._data.data import Data
from .._data.stack import DataStack
from .._loss.losses import AbstractLoss, Target


def stacked_targets(loss: AbstractLoss, stack: DataStack, fits: int) -> Target:
    """The targets of the fits to these data sets, or to a single one, with a last axis
    over the fits."""
    groups = _equal_times(stack)
    parts = [(_prepared(loss, stack, group), len(group)) for group in groups]
    targets = [target for target, _ in parts]
    if len(parts) > 1:
        points = max(0 if t.points is None else len(t.points.times) for t in targets)
        pieces = max(
            0 if t.spline is None else len(t.spline.coefficients) for t in targets
        )
        parts = [(target.pad(points, pieces), count) for target, count in parts]
    k = stack.x.shape[2]
    lanes = [_in_lanes(target, count, k) for target, count in parts]
    found = lanes[0]
    if len(lanes) > 1:
        place = np.argsort(np.concatenate(groups))
        found = jax.tree.map(
            lambda *leaves: np.concatenate(leaves, axis=-1)[..., place], *lanes
        )
    if len(stack) == fits:
        return found
    return jax.tree.map(lambda a: np.broadcast_to(a, (*a.shape[:-1], fits)), found)


def _equal_times(stack: DataStack) -> list[np.ndarray]:
    """The numbers of the sets, in groups that have the same times."""
    is_shared = stack.t.strides[0] == 0 or np.all(stack.t == stack.t[:1])
    if is_shared and np.all(stack.lengths == stack.lengths[0]):
        return [np.arange(len(stack))]
    groups: dict[bytes, list[int]] = {}
    for number, (t, length) in enumerate(zip(stack.t, stack.lengths)):
        groups.setdefault(t[:length].tobytes(), []).append(number)
    return [np.array(group) for group in groups.values()]


def _prepared(loss: AbstractLoss, stack: DataStack, group: np.ndarray) -> Target:
    """The target of all sets of a group as one data set, set after set."""
    kept = slice(stack.lengths[group[0]])

    def wide(array: np.ndarray) -> np.ndarray:
        rows = np.swapaxes(array[group][:, kept], 0, 1)
        return rows.reshape(len(rows), -1)

    sd = None if stack.sd is None else wide(stack.sd)
    return loss.prepare(Data(stack.t[group[0], kept], wide(stack.x), sd=sd))


def _in_lanes(target: Target, count: int, k: int) -> Target:
    """The target with a last axis over `count` data sets of k quantities each."""

    def of_values(array: Any) -> np.ndarray:
        array = np.asarray(array)
        if array.shape[-1] == count * k:
            return np.moveaxis(array.reshape(*array.shape[:-1], count, k), -2, -1)
        return of_times(array)

    def of_times(array: Any) -> np.ndarray:
        array = np.asarray(array)[..., None]
        return np.broadcast_to(array, (*array.shape[:-1], count))

    points, spline = target
    if points is not None:
        values, weights = of_values(points.values), of_values(points.weights)
        points = points._replace(
            times=of_times(points.times), values=values, weights=weights
        )
    if spline is not None:
        coefficients = of_values(spline.coefficients)
        spline = type(spline)(of_times(spline.knots), coefficients, spline.uniform)
    return Target(points, spline)
