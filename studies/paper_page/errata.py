"""The paper's errata, and the time that its reproduction takes."""

import numpy as np

from .numbers import Numbers, percent, prose

# The time of the published code for the 300 fits on one core, 50 to 165 s each.
_HOURS = 7


def errata(numbers: Numbers) -> str:
    high = numbers.results("published", "exponential", 0.9)
    off = np.abs(high.paper_mean / high.true - 1)
    return prose(f"""
    ## Errata

    These are the errors and contradictions that we found in the paper and its code, and
    how we resolve them.

    1. Theorem 1: the gradient for the delay lacks the integral over $[0, \\tau]$, where
    the history moves with the delay ([derivation and numbers](the-correction.md)). The
    formulas for theta and phi are right.
    2. For that term the history must be differentiable in time; the paper does not
    assume this.
    3. The loss is L2 in the text (L1 for HIV); what was run is L1 for all. The rate is
    0.03 in the text; what was run is 0.1 for HIV. See the `stated` columns.
    4. The terminal loss G is the squared norm in the section on methods, zero in the
    experiments. We take zero.
    5. Logistic: `omega` is 5.0 in the text and 3.0 in every table. We take 3.0.
    6. ENSO: `theta_2` is 1.5 in the text and 0.75 in the tables. We take 0.75. The rows
    of its table for noise 0.1 are rotated: 5.1961 stands beside `theta_0` and is `tau`.
    Here they are put right.
    7. Logistic at noise 0.9: the row of `tau` repeats that of noise 0.3.
    8. HIV: the noise levels begin at 0.0 in the text, at 0.1 in the tables. We take
    0.1.
    9. HIV: the only entry of $F_y$ that is not zero is row `T*`, column `V_I`, not row
    `V_I`, column `V_NI`. The invariance in `N` and `delta` overlooks the first
    equation.
    10. The data have 101 times, not 100 (Cheyne 121, not 120): both ends count. They
    come from Heun's method with the step $\\tau/N_\\tau$, not from the exact solution.
    The noise is relative to each component's own standard deviation.
    11. Noise levels of 0.1, 0.3 and 0.9 do not span "three orders of magnitude", but
    less than one.
    12. The error on Exponential at noise 0.9 is not "only a few percent" for all: the
    printed means of `a` and `b` are {percent(off[3])} and {percent(off[4])} off.
    13. The loss is integrated to $N_{{step}}\\,\\Delta t$, beyond the data, on nodes
    that move with the delay: it has a kink in the delay wherever $T/\\Delta t$ is an
    integer. The code reads the target at $k\\,T/N_{{step}}$ instead of $k\\,\\Delta t$
    there. Both touch the reported loss and the threshold, not the gradient.
    14. The code sets a delay below 0.01 to 0.01, and from then on does not learn it.
    15. The "fundamental limitation of any algorithm" holds for some parameters only:
    see [above](#what-cannot-be-learned-and-what-was-only-not-reached).
    """)


def duration(numbers: Numbers) -> str:
    timing = numbers.claims["timing"]
    shortest, runs = min(timing["seconds"]), len(timing["seconds"])
    times = round(_HOURS * 3600 / shortest, -2)
    return prose(f"""
    ## How long it takes

    `ddefind paper`, all 300 fits with tables and figures, in a new process on
    {timing["cores"]} cores: {shortest:.1f} s (the shortest of {runs} runs). The
    published code (PyTorch, one core) takes 50 s (Exponential) to 165 s (HIV) for a fit
    of 500 epochs, about {_HOURS} hours in all, some {times:.0f} times as long. Most of
    our time is compilation; the fits of a model run side by side in one compiled
    program.

    `python -m studies.paper_page` writes this page from `studies/results/paper/`, the
    results of `ddefind paper` for each protocol, and from
    `studies/results/paper_claims.json`, which `python -m studies.paper_claims`
    measures.
    """)
