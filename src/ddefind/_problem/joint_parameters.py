r"""The parameters of a study: which are shared, and which belong to one experiment.

The model of one experiment has local free values $\theta_e$. Those of the whole study
are the joint values $\theta$. Experiment e takes its own from them,

$$\theta_e = P_e\,\theta + c_e,$$

where each row of $P_e$ picks one joint value, or none: then the value is known in this
experiment, and stands in $c_e$."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from .free_parameters import FreeParameters, ParameterArray

# What belongs to each experiment unless something else is said.
_OWN_BY_DEFAULT = ("history.", "initial")


@final
@dataclass(frozen=True)
class JointParameters:
    """How the joint free values are made of those of the experiments.

    `free` are the joint parameters, `place` [experiments, local values] is the number
    of the joint value that each local one equals, or -1 where it is known, and `known`
    its value there. `is_own` says of each local value whether every experiment has its
    own."""

    free: FreeParameters
    place: np.ndarray
    known: np.ndarray
    is_own: np.ndarray

    @property
    def selection(self) -> np.ndarray:
        """The matrices P, [experiments, local values, joint values]."""
        joint = np.arange(len(self.free.names))
        return (self.place[:, :, None] == joint).astype(float)

    def local(self, theta: np.ndarray, experiment: int) -> np.ndarray:
        """The local values of an experiment, for one joint vector or for rows of
        them."""
        place = self.place[experiment]
        return np.where(place >= 0, theta[..., place], self.known[experiment])


def is_own_by_default(path: str) -> bool:
    """Whether a parameter with this full name belongs to each experiment."""
    return path.startswith(_OWN_BY_DEFAULT)


def joint_parameters(
    local: FreeParameters,
    labels: Sequence[str],
    is_own: Sequence[bool],
    known: Sequence[Mapping[int, float]],
) -> JointParameters:
    """The joint parameters of the experiments with these `labels`. `is_own` says for
    each local value whether every experiment has its own, and `known` gives for each
    experiment the local values that are known there."""
    names: list[str] = []
    place = np.full((len(labels), len(local.names)), -1)
    for j, name in enumerate(local.names):
        learned = [e for e in range(len(labels)) if j not in known[e]]
        for e in learned:
            if is_own[j] or e == learned[0]:
                names.append(f"{name}@{labels[e]}" if is_own[j] else name)
            place[e, j] = len(names) - 1
    values = np.zeros(place.shape)
    for e, own in enumerate(known):
        for j, value in own.items():
            values[e, j] = value
    count = len(names)
    arrays, source, like = _arrays(local, labels, is_own, place)
    free = replace(
        local,
        arrays=arrays,
        names=tuple(names),
        source=source,
        like=like,
        lower=(-np.inf,) * count,
        upper=(np.inf,) * count,
    )
    return JointParameters(free, place, values, np.array(is_own, bool))


def _arrays(
    local: FreeParameters,
    labels: Sequence[str],
    is_own: Sequence[bool],
    place: np.ndarray,
) -> Any:
    """The arrays of the study, with their sources and likenesses: an array with a value
    that belongs to each experiment is there once for each."""
    arrays: list[ParameterArray] = []
    source: list[int] = []
    first_with: dict[int, int] = {}
    like: list[int] = []
    for array in local.arrays:
        sources = local.source[array.first : array.first + array.size]
        several = any(j >= 0 and is_own[j] for j in sources)
        for e, label in enumerate(labels):
            if e > 0 and not several:
                break
            arrays.append(
                array._replace(first=len(source), label=label if several else "")
            )
            for j in sources:
                # A value that is known in one experiment may be learned in others.
                found = place[:, j].max() if not several else place[e, j]
                joint = int(found) if j >= 0 else -1
                element = len(source)
                source.append(joint)
                same = first_with.setdefault(joint, element) if joint >= 0 else element
                like.append(same)
    return tuple(arrays), tuple(source), tuple(like)
