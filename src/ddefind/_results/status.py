"""How a fit ended: a sentence for each case."""

import enum
from typing import final

from .._search import levenberg_marquardt
from .._search.squares import FOR_NETWORKS

# Steps of a fit with networks that lower S by a smaller share are slow, as in 2e-5.
_SLOW = f"{FOR_NETWORKS.slow:g}".replace("e-0", "e-")


@final
class Status(enum.Enum):
    """How a fit ended, and what to do about it."""

    finished = "Ran all its epochs. Run more, or compare with another optimiser."
    threshold = "The loss fell below the threshold."
    settled = "The optimiser could not lower the loss any further."
    failed = (
        "The loss stayed non-finite however small the step; the best point is kept. "
        "Lower the rate, or bound the parameters."
    )
    no_start = (
        "The loss is not finite at the start. Start elsewhere, or bound the parameters."
    )
    interrupted = "Interrupted; the best point so far is kept."
    converged_gradient = (
        "Converged: the residuals are orthogonal to every parameter's influence."
    )
    converged_step = "Converged: no further step would lower the sum of squares."
    exact = "Converged: the model passes through the data, up to rounding."
    converged_kink = (
        "Converged: no move of up to a standard error lowers the sum of squares, "
        "though its slope is not zero (a kink, or lost digits)."
    )
    converged_slowly = (
        f"Converged: the last steps lowered the sum of squares by less than {_SLOW} of "
        "it each."
    )
    most_probable = (
        "Converged: a parameter is at its most probable value, averaged over the "
        "network's weights, and all other values are fitted to it."
    )
    limit = (
        "Stopped before convergence, after the most evaluations that a fit may take. "
        "Bound the parameters, or fix those that the data cannot determine."
    )
    stuck = (
        "Stopped before convergence: no smaller step lowers the sum of squares. The "
        "model may not be smooth in its parameters, or lose its digits in differences "
        "of large numbers."
    )

    error = "There is no fit: it ended with an error."
    pending = "There is no fit yet: it was interrupted before."

    @property
    def has_fit(self) -> bool:
        """Whether there is a fit at all."""
        return self not in (Status.error, Status.pending)

    @property
    def ok(self) -> bool:
        return self in (
            Status.finished,
            Status.threshold,
            Status.settled,
            Status.converged_gradient,
            Status.converged_step,
            Status.converged_kink,
            Status.converged_slowly,
            Status.most_probable,
            Status.exact,
        )


# How a minimisation ended, by the number that says so.
STATUS = {
    levenberg_marquardt.LIMIT: Status.limit,
    levenberg_marquardt.GRADIENT: Status.converged_gradient,
    levenberg_marquardt.STEP: Status.converged_step,
    levenberg_marquardt.EXACT: Status.exact,
    levenberg_marquardt.STUCK: Status.stuck,
    levenberg_marquardt.NO_START: Status.no_start,
    levenberg_marquardt.KINK: Status.converged_kink,
    levenberg_marquardt.SLOW: Status.converged_slowly,
    levenberg_marquardt.PROBABLE: Status.most_probable,
}
