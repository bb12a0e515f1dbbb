"""Where the programs of many fits run."""

import enum
from typing import final

from .on_gpu import has_gpu
from .on_processor import has_compiler

# With fewer fits than this a GPU is slower than the processor: each thread is slow.
LEAST_FOR_GPU = 1000


@final
class Place(enum.Enum):
    """A way to run a program: compiled by XLA, or translated into C and compiled for
    the processor or the GPU."""

    xla = enum.auto()
    processor = enum.auto()
    gpu = enum.auto()


def place_for(fits: int) -> Place:
    """Where so many fits run."""
    if fits >= LEAST_FOR_GPU and has_gpu():
        return Place.gpu
    return Place.processor if has_compiler() else Place.xla


def others(place: Place) -> tuple[Place, ...]:
    """Where a program runs if it cannot at this place, the best first."""
    return (Place.processor, Place.xla) if place is Place.gpu else (Place.xla,)
