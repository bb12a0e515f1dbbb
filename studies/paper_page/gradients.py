"""The error and the cost of the gradient: steps per delay, and direct or adjoint."""

import numpy as np

from ddefind.paper import EXPERIMENTS

from .numbers import Numbers, claim, percent, prose, table, title

_ROUTES = ("Published", "Adjoint", "Discrete")


def steps(numbers: Numbers) -> str:
    study = numbers.claims["steps_per_delay"]
    rows = []
    for row in study:
        errors = [row[route]["others"] for route in _ROUTES[1:]]
        errors += [row[route]["tau"] for route in _ROUTES]
        rows.append(
            [
                title(row["model"]),
                f"{row['steps_per_delay']}",
                *("explodes" if x is None else percent(x) for x in errors),
                *(f"{row['microseconds'][route]:.1f}" for route in _ROUTES),
            ]
        )
    head = ["model", "$N_\\tau$", "theta, phi: `Adjoint`", "`Discrete`"]
    head += ["tau: `Published`", "`Adjoint`", "`Discrete`"]
    head += ["µs: `Published`", "`Adjoint`", "`Discrete`"]
    return "\n\n".join(
        [
            prose("""
            ## How many steps per delay

            The paper finds that $N_\\tau$ between 10 and 100 works well. The table
            shows the relative error of the gradient at the paper's starts, compared
            with a fine solution (L2 loss, data without noise, each parameter in units
            of its own value), and the time of one gradient.
            """),
            table(head, rows),
            prose(_order(study)),
        ]
    )


def _order(study: list[dict]) -> str:
    by = {(row["model"], row["steps_per_delay"]): row for row in study}
    orders, costs = [], []
    for model in EXPERIMENTS:
        half, full = by[model, 50], by[model, 100]
        orders.append(np.log2(half["Adjoint"]["others"] / full["Adjoint"]["others"]))
        for route in _ROUTES:
            costs.append(full["microseconds"][route] / half["microseconds"][route])
    off = by["exponential", 100]["Published"]["tau"]
    ten = {m: by[m, 10]["Adjoint"] for m in EXPERIMENTS}
    worst = {m: max(e.values()) for m, e in ten.items() if e["tau"] is not None}
    return claim(
        min(orders) > 1.8
        and 1.3 < np.median(costs) < 2.5
        and off > 1
        and set(EXPERIMENTS) - set(worst) == {"enso"}
        and max(worst["logistic"], worst["hiv"]) < 0.002,
        f"""From 50 to 100 steps the cost grows {np.median(costs):.1f} times and the
        error falls to a quarter (measured order {min(orders):.1f} to
        {max(orders):.1f}). The printed formula for the delay does not converge to the
        gradient: on Exponential it stays {percent(off)} off. Ten steps give errors
        below 0.2% on Logistic and HIV, of up to {percent(worst["cheyne"])} on Cheyne
        and {percent(worst["exponential"])} on Exponential. For ENSO, whose delay is
        long, ten are too few: from its start the solution explodes. The paper takes 50
        there.""",
    )


def routes(numbers: Numbers) -> str:
    study = numbers.claims["routes"]
    names = ("Forward", "Discrete", "Adjoint")
    rows = [
        [str(row["parameters"]), *(f"{row[name]:.0f}" for name in names)]
        for row in study["rows"]
    ]
    head = ["parameters", "direct, `Forward`", "adjoint of the steps, `Discrete`"]
    return "\n\n".join(
        [
            prose("""
            ## Direct or adjoint

            Section 6.1 of the paper rejects the direct approach, which solves for the
            derivative of the state with respect to each parameter, because its cost
            grows with their number. The table shows the microseconds for one gradient.
            The right-hand side is a network of one hidden layer (the smallest has
            none), solved with 100 Heun steps.
            """),
            table([*head, "adjoint equation, `Adjoint`"], rows),
            prose(_crossover(study)),
        ]
    )


def _crossover(study: dict) -> str:
    first, last = study["rows"][0], study["rows"][-1]
    more = last["parameters"] / first["parameters"]
    direct, exact = (last[name] / first[name] for name in ("Forward", "Discrete"))
    cross = study["crossover"]
    return claim(
        direct > more > exact and cross["Adjoint"] > cross["Discrete"],
        f"""With {more:.0f} times as many parameters the adjoint of the steps costs
        {exact:.0f} times as much, since the network is larger. The direct approach
        costs {direct:,.0f} times as much: it solves an equation for each parameter, and
        each of them contains the whole network. It is the more expensive one from about
        {cross["Discrete"]:.0f} parameters on against the adjoint of the steps, and from
        about {cross["Adjoint"]:.0f} on against the adjoint equation. For the paper's
        models, with 5 to 10 parameters, both are cheap; and the direct approach gives
        the Jacobian, which least squares and error bars need.""",
    )
