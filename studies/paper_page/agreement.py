"""What `ddefind paper` does, and how its results compare with the printed tables."""

import numpy as np

from ddefind.paper import EXPERIMENTS

from .numbers import (
    ALL,
    CELLS,
    LOW,
    PROTOCOLS,
    Numbers,
    claim,
    number,
    prose,
    spread,
    table,
    title,
)


def beginning(numbers: Numbers) -> str:
    worst = max(numbers.rms("published", *cell) for cell in LOW)
    hiv = numbers.results("published", "hiv", 0.1).rms_z(without=("tau",))
    seconds = min(numbers.claims["timing"]["seconds"])
    agree = claim(
        worst <= 2 and hiv <= 2,
        f"""At noise 0.1 and 0.3 our means agree with the printed ones: rms z is at most
        {worst:.2f} in every cell (HIV at 0.1: {hiv:.2f} without its delay, see
        below).""",
    )
    return prose(f"""
    # Reproducing the paper

    The DDE-Find paper by Robert Stephany learns the parameters, the delay and the
    history of five delay differential equations from noisy data, and reports its
    results in 15 tables. One command repeats all of it, 300 fits:

    ```
    ddefind paper --out results
    ```

    It writes `results.json`, `tables.md` and the figures, and takes about
    {seconds:.0f} s, compilation included. The published code takes about 7 hours.
    `ddefind paper --help` shows the options: some of the models, other noise levels,
    more data sets, another seed.

    `--protocol` chooses how the parameters are learned:

    - `published`, the default, is what produced the printed tables: the L1 loss, a
    learning rate of 0.03 (HIV: 0.1), and the gradient as printed, which is wrong for
    the delay;
    - `stated` is what the paper's text says: the L2 loss (HIV: L1) and a learning rate
    of 0.03;
    - `corrected` is `published` with [the correct gradient](the-correction.md);
    - `best` is the default method of `dd.fit`, least squares without start values (see
    [below](#our-default-without-start-values)).

    The first three use Heun's method with $N_\\tau$ steps per delay, and 500 epochs of
    Adam with a learning rate that falls along a cosine to a tenth. A fit ends early
    when its loss is below 0.01.

    {agree}

    ![True, target and predicted trajectories](paper-figures.png)
    """)


def summary(numbers: Numbers) -> str:
    rows = [
        [title(model), f"{noise:g}"]
        + [f"{numbers.rms(protocol, model, noise):.2f}" for protocol in PROTOCOLS]
        for model, noise in CELLS
    ]
    stated = max(numbers.rms("stated", *cell) for cell in LOW)
    hiv = numbers.results("stated", "hiv", 0.1)
    stopped = numbers.results("stated", "cheyne", 0.1).statuses.get("threshold", 0)
    corrected = max(numbers.rms("corrected", *cell) for cell in LOW)
    settings = claim(
        stated > 10 and abs(hiv.mean[0] - 1) > 0.1 and stopped == 20,
        f"""The stated settings did not make the printed tables: rms z reaches
        {stated:.0f} at noise 0.1 and 0.3. With them HIV's delay ends at
        {hiv.mean[0]:.3f} instead of 1, and all {stopped} fits of Cheyne at noise 0.1
        fall below the threshold and end early.""",
    )
    gradient = claim(
        corrected <= 2,
        f"""The correct gradient alone changes little in 500 epochs: `corrected` agrees
        with the printed tables as well (rms z at most {corrected:.2f} at noise 0.1 and
        0.3, except for HIV at 0.1). The effect of the wrong gradient shows when the
        fits are run until they converge, see
        [below](#why-the-published-spread-is-below-the-cramér-rao-bound).""",
    )
    head = ["model", "noise", *(f"`{protocol}`" for protocol in PROTOCOLS)]
    return "\n\n".join(
        [
            prose("""
            ## Agreement with the printed tables

            For each parameter, z is the difference between our mean and the printed
            one, divided by the standard error of that difference (20 data sets each).
            The table shows the root mean square of z over the parameters. It is about 1
            if the two differ only by the random noise of their data sets.
            """),
            table(head, rows),
            prose(settings),
            prose(gradient),
            _luck(numbers),
        ]
    )


def _luck(numbers: Numbers) -> str:
    study = numbers.claims["seeds"]
    rows = [
        [
            title(row["model"]),
            f"{row['noise']:g}",
            f"{np.median(row['rms_z']):.2f}",
            f"{max(row['rms_z']):.2f}",
            f"{sum(z <= 2 for z in row['rms_z'])} of {study['seeds']}",
            f"{row['rms_z_of_all']:.2f}",
        ]
        for row in study["cells"]
    ]
    head = ["model", "noise", "median", "largest", "at most 2", "all seeds together"]
    remarks = [_hiv_delay(numbers), _enso(study), _short_delays(study)]
    return "\n\n".join(
        [
            prose(f"""How much of this is chance? The next table repeats the `published`
            protocol with {study["seeds"]} seeds of the noise. It shows the median and
            the largest rms z, how many seeds give at most 2, and, in the last column
            and the same units, rms z of the mean over all seeds."""),
            table(head, rows),
            prose("\n".join(f"- {' '.join(remark.split())}" for remark in remarks)),
        ]
    )


def _hiv_delay(numbers: Numbers) -> str:
    (cell,) = (
        row
        for row in numbers.claims["seeds"]["cells"]
        if (row["model"], row["noise"]) == ("hiv", 0.1)
    )
    low, high = (numbers.results("published", "hiv", noise) for noise in (0.1, 0.9))
    times = low.paper_sd[0] / low.cramer_rao[0]
    others = low.rms_z(without=("tau",)), high.rms_z(without=("tau",))
    return claim(
        min(cell["rms_z"]) > 2 and times > 3 and max(others) <= 2,
        f"""HIV at 0.1 disagrees with every seed, because of its delay alone: printed is
        {low.paper_mean[0]:.4f} ± {low.paper_sd[0]:.4f}, ours
        {low.mean[0]:.4f} ± {low.sd[0]:.4f}. The printed spread is {times:.1f} times the
        Cramér-Rao bound, and reruns of the published code give 1.0000, too. HIV at 0.9
        is above 2 by the same row (printed {high.paper_mean[0]:.4f} ±
        {high.paper_sd[0]:.4f}, ours {high.mean[0]:.4f} ± {high.sd[0]:.4f}; without it
        {others[1]:.2f}). Where the printed delays come from we do not know.""",
    )


def _enso(study: dict) -> str:
    (row,) = (r for r in study["cells"] if (r["model"], r["noise"]) == ("enso", 0.1))
    return claim(
        row["rms_z_of_all"] < 2 < max(row["rms_z"]),
        f"""ENSO at 0.1 is a borderline case. Its estimates are correlated, so that one
        unusual draw moves them all; with all our seeds together rms z is
        {row["rms_z_of_all"]:.2f}.""",
    )


def _short_delays(study: dict) -> str:
    short = [row for row in study["cells"] if row["at_shortest_delay"]]
    counts = " and ".join(
        f"{row['at_shortest_delay']} of {row['fits']} fits at noise {row['noise']:g}"
        for row in short
    )
    return claim(
        {row["model"] for row in short} == {"cheyne"},
        f"""Cheyne's delay overshoots to 0.01 and stays there in {counts}. The published
        code sets shorter delays to 0.01, in a variable that its optimiser does not
        know, so that they are not learned any more.""",
    )


def tables(numbers: Numbers) -> str:
    parts = [
        prose("""
        ## All 15 tables

        The entries are mean ± standard deviation over 20 data sets (seed 0), and z
        compares `published` with the paper. The Cramér-Rao sd is the smallest standard
        deviation that unbiased estimates can have. Where there is none, the data do not
        determine the parameter.
        """)
    ]
    head = ["parameter", "true", "paper", *ALL, "z", "Cramér-Rao sd"]
    for model, noise in CELLS:
        levels = [numbers.results(protocol, model, noise) for protocol in ALL]
        first = levels[0]
        rows = []
        for k, name in enumerate(EXPERIMENTS[model].parameters):
            cells = [spread(first.paper_mean[k], first.paper_sd[k])]
            cells += [spread(results.mean[k], results.sd[k]) for results in levels]
            z, bound = number(first.z[k], ".1f"), number(first.cramer_rao[k])
            rows.append([name, f"{first.true[k]:g}", *cells, z, bound])
        parts += [f"### {title(model)}, noise {noise:g}", table(head, rows)]
    return "\n\n".join(parts)
