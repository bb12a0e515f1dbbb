r"""The score of a model: its BIC, and a charge for each of its terms and delays.

Models are weighed by $\exp(-\mathrm{score} / 2)$. The BIC alone would take every
candidate for a term with probability one half before there are data. But of many
candidates few are terms: a charge of 3 is a probability of 18%. And of the many delays
that a search tries, one always follows the noise: so each delay is charged 10, what is
called very strong evidence."""

TERM_CHARGE, DELAY_CHARGE = 3.0, 10.0
