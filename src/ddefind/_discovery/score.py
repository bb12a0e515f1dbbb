r"""The score of a model: its BIC, and a charge for each of its terms and delays.

Models are weighed by $\exp(-\mathrm{score} / 2)$. The BIC alone would take every
candidate for a term with probability one half before there are data, so that the more
are offered, the more often one of them follows the noise. Of $p$ candidates for an
equation few are terms: each counts as one with odds of $1 : p$, a charge of
$2 \log p$. And of the many delays that a search tries, one always follows the noise:
so each delay is charged 10, what is called very strong evidence. (A delay that the user
gives is not searched, and costs nothing.)"""

import math

DELAY_CHARGE = 10.0


def charge_of_term(candidates: int) -> float:
    """The charge for each term, where an equation has so many candidates."""
    return 2.0 * math.log(max(candidates, 1))
