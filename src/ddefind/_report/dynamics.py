"""The equilibria of the fitted equation, and whether they are stable."""

from typing import TYPE_CHECKING

from .blocks import Block, Section, Table, Text

if TYPE_CHECKING:
    from .._results.estimate import Estimate


def dynamics(fit: "Estimate") -> Section:
    """The section on stability, or why nothing can be said of it."""
    view = next(iter(fit.experiments.values()), fit)
    about = "Where the fitted equation rests, and what becomes of small disturbances."
    blocks: list[Block] = [Text(about)]
    if fit.experiments:
        label = next(iter(fit.experiments))
        blocks.append(Text(f"These are the equilibria of the experiment `{label}`."))
    try:
        found = view.stability()
    except ValueError as error:
        blocks.append(Text(str(error)))
    else:
        if found.equilibria:
            table = found.cells()
            blocks.append(Table([table.header, *table.rows], tuple(table.left)))
        blocks += map(Text, found.sentences())
    return Section("stability", "Stability", blocks)
