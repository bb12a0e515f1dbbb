"""What the data determine, what the optimiser reaches, and what the printed standard
deviations mean."""

import numpy as np

from ddefind.paper import EXPERIMENTS

from .numbers import CELLS, Numbers, claim, number, percent, prose, spread, table, title


def bound(numbers: Numbers) -> str:
    ratios = []
    for cell in CELLS:
        results = numbers.results("published", *cell)
        ratios.append(results.paper_sd / results.cramer_rao)
    every = np.concatenate(ratios)
    names = EXPERIMENTS["exponential"].parameters
    shown = ", ".join(f"{ratio:.2f} ({name})" for ratio, name in zip(ratios[0], names))
    limits = EXPERIMENTS["exponential"].cramer_rao(0.1)
    runs = numbers.claims["epochs"]
    rows = [
        [f"`{run['protocol']}`", f"{run['epochs']:,}"]
        + [f"{sd:.4f}" for sd in run["sd"]]
        for run in runs
    ]
    rows.append(["Cramér-Rao bound", "", *(f"{limit:.4f}" for limit in limits)])
    return "\n\n".join(
        [
            prose(f"""
            ## Why the published spread is below the Cramér-Rao bound

            No unbiased estimator can have a spread below the Cramér-Rao bound. Of the
            paper's {np.isfinite(every).sum()} standard deviations of parameters that
            the data determine, {np.sum(every < 0.5)} are less than half of it. On
            Exponential at noise 0.1 they are {shown} of the bound.

            This is not accuracy. All fits begin at the same point and are stopped after
            500 epochs, before they have converged. What is printed is how far apart
            they are on their way, not how far apart the converged estimates would be.
            {_other_starts(numbers)}

            The next table runs Exponential at noise 0.1 for longer. It shows standard
            deviations over 20 data sets.
            """),
            table(["protocol", "epochs", *names], rows),
            prose(f"""{_longer(runs, limits)} So a better optimiser looks worse in such
            a table. Estimates should be judged by their bias, by their spread in units
            of the bound, and by how often their intervals contain the truth."""),
        ]
    )


def _other_starts(numbers: Numbers) -> str:
    (row,) = (
        row
        for row in numbers.claims["random_starts"]
        if (row["model"], row["protocol"]) == ("exponential", "published")
    )
    results = numbers.results("published", "exponential", 0.1)
    scatter, printed = row["scatter"]["theta_0"], results.paper_sd[0]
    return claim(
        scatter > 3 * printed,
        f"""Other starts show it: on a single data set, `theta_0` scatters by
        {scatter:.2f} over the [random starts](#random-starts) below, while the printed
        spread over data sets is {printed:.2f}.""",
    )


def _longer(runs: list[dict], limits: np.ndarray) -> str:
    sd = {(run["protocol"], run["epochs"]): np.array(run["sd"]) for run in runs}
    longest = max(run["epochs"] for run in runs)
    short, long = sd["corrected", 500] / limits, sd["corrected", longest] / limits
    more = sd["published", longest] / sd["corrected", longest] - 1
    return claim(
        short[:4].max() < 0.5 and long.min() > 0.95 and more.min() > 0,
        f"""After 500 epochs the spread of `theta_0` is {short[0]:.2f} of the bound,
        after {longest:,} epochs it is {long[0]:.2f} of it. With the printed gradient a
        fit does not end in the minimum, and every parameter scatters more: `theta_0` by
        {percent(more[0])}, `theta_1` by {percent(more[1])}.""",
    )


def reached(numbers: Numbers) -> str:
    study = {row["model"]: row for row in numbers.claims["converged"]}
    rows, missed = [], set()
    for model, experiment in EXPERIMENTS.items():
        limits = experiment.cramer_rao(0.1)
        results = numbers.results("published", model, 0.1)
        own, truth = study[model]["paper"], study[model]["truth"]
        for k, name in enumerate(experiment.parameters):
            rows.append(
                [
                    f"{title(model)}: {name}",
                    f"{results.true[k]:g}",
                    spread(results.paper_mean[k], results.paper_sd[k]),
                    spread(own["mean"][k], own["sd"][k]),
                    spread(truth["mean"][k], truth["sd"][k]),
                    number(limits[k]),
                ]
            )
            error = abs(own["mean"][k] - results.true[k])
            if error > limits[k] or own["sd"][k] > 1.5 * limits[k]:
                missed.add(model)
    head = ["parameter", "true", "paper", "from its start", "from the truth"]
    return "\n\n".join(
        [
            prose("""
            ## What cannot be learned, and what was only not reached

            The paper finds that `A` and `omega` of a periodic history are hard to
            learn, and calls this "a fundamental limitation of any algorithm" that
            minimises such a loss. For some parameters it is one:
            """),
            prose(_undetermined(numbers)),
            prose("""For the others it is not. The next table shows least squares run
            until it converges (L-BFGS, data of noise 0.1), from the paper's start and
            from the truth:"""),
            table([*head, "Cramér-Rao sd"], rows),
            prose(_found(missed) + " " + _another_minimum(study["logistic"])),
        ]
    )


def _undetermined(numbers: Numbers) -> str:
    silent = numbers.claims["constants"]["without_influence"]
    cheyne = numbers.claims["undetermined"]
    return claim(
        len(silent) == 4 and cheyne["sd"] > 10 * abs(cheyne["true"]),
        f"""- Cheyne's `a`: its Cramér-Rao sd at noise 0.1 is {cheyne["sd"]:.0f}, for a
true value of {cheyne["true"]:g}.
- HIV's `A` and `omega` of `T*` and `V_NI`: the solution does not depend on them at all,
as the paper says.""",
    )


def _found(missed: set[str]) -> str:
    return claim(
        missed == {"logistic"},
        """From the paper's own starts this finds Exponential, ENSO, Cheyne and HIV:
        every determined parameter is on average within one Cramér-Rao sd of the truth,
        and scatters as the bound says, `A[V_I]` and `omega[V_I]` of HIV among them.""",
    )


def _another_minimum(row: dict) -> str:
    return claim(
        row["lower_from_truth"] > 10,
        f"""In Logistic it ends in another minimum, with `A`, `omega` and `b` far off;
        but in {row["lower_from_truth"]} of {row["sets"]} data sets the minimum near the
        truth is the lower one. So the data do determine these parameters, but it takes
        more than one start to find them.""",
    )


def constants(numbers: Numbers) -> str:
    study = numbers.claims["constants"]
    rows = []
    for row in study["directions"]:
        parts = sorted(row["direction"].items(), key=lambda part: -abs(part[1]))
        shown = ", ".join(f"{x:+.2f} {name}" for name, x in parts if abs(x) > 0.15)
        known = row["spread"] < 1e3
        rows.append([shown, f"{row['spread']:.2g}" if known else "not determined"])
    return "\n\n".join(
        [
            prose("""
            ## HIV with all constants free

            The paper keeps the constants of the HIV model fixed, since the data cannot
            determine all of them. The Fisher information says how many they determine,
            and which. The table lists directions in the space of relative parameter
            changes, from the one in which the data change most to those in which they
            do not change at all. A spread of 0.01 at noise 0.1 means that the
            combination is known to 1%. The components 0, 1, 2 are `T*`, `V_I`, `V_NI`.
            """),
            table(["direction", "spread"], rows),
            prose(_not_determined(study)),
        ]
    )


def _not_determined(study: dict) -> str:
    free = [r["direction"] for r in study["directions"] if r["spread"] > 1e3]
    # The relative change of k T_0 exp(-m tau) along each: m = 3.8, tau = 1.
    change = [abs(d["k"] + d["T_0"] - 3.8 * d["m"]) for d in free]
    others = [abs(d[name]) for d in free for name in d if name not in ("k", "T_0", "m")]
    worst = max(r["spread"] for r in study["directions"] if r["spread"] < 1e3)
    return claim(
        len(free) == 2 and max(change) < 0.02 and max(others) < 0.01,
        f"""Two directions are not determined: changes of `k`, `T_0` and `m` that leave
        $k\\,T_0\\,e^{{-m \\tau}}$ as it is. All else is: the least certain of the other
        directions, in which `N` changes against `delta`, is known to {percent(worst)}.
        The paper names another invariance, $N \\to N/\\eta$ and $\\delta \\to
        \\eta\\delta$. It leaves two equations as they are, but not the first, where
        $\\delta$ stands alone.""",
    )


def starts(numbers: Numbers) -> str:
    study = numbers.claims["random_starts"]
    rows = []
    for row in study:
        each = ", ".join(f"{name} {count}" for name, count in row["each"].items())
        counts = [f"{row['tau']}", f"{row['all_determined']}"]
        rows.append([title(row["model"]), f"`{row['protocol']}`", *counts, each])
    found = [row for row in study if row["protocol"] == "published"]
    count, least = found[0]["starts"], min(row["tau"] for row in found)
    weak = {row["model"] for row in found if row["all_determined"] < count / 4}
    depends = claim(
        least > 0.8 * count and weak == set(EXPERIMENTS) - {"cheyne"},
        f"""The delay is found from at least {least} of the {count} starts. All
        determined parameters together are found from less than a quarter of them,
        except in Cheyne: where a fit ends depends on where it begins.""",
    )
    sd = EXPERIMENTS["exponential"].cramer_rao(0.1)[0] / 2
    return "\n\n".join(
        [
            prose(f"""
            ## Random starts

            The paper's starts were chosen. The table shows {count} random ones, each
            parameter within 50% of its true value, for one data set at noise 0.1. It
            counts the fits that end within 10% of the truth (within 0.1 where that is
            0).
            """),
            table(["model", "protocol", "tau", "all determined", "each"], rows),
            prose(f"""{depends} (Ten percent is a hard test where the bound is larger:
            the Cramér-Rao sd of `theta_0` of Exponential is {percent(sd)}.)"""),
        ]
    )
