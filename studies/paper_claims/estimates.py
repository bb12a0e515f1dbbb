"""What the data determine, and where fits end: for sections of the paper's page."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ddefind as dd
from ddefind.paper._experiments import (
    EXPERIMENTS,
    NOISE,
    PROTOCOLS,
    REPEATS,
    Experiment,
)
from ddefind.paper._run import estimates, fit_sets, run_model

from .gradients import flat


def _sensitivities(experiment: Experiment) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The names and values of all parameters, fixed ones included, and the Jacobian of
    the data in units of the noise at level 1: a row for each value, a column for each
    parameter."""
    vector, rebuild = flat(experiment.true)
    scale = np.std(experiment.clean.x, axis=0, ddof=1)
    n, T = experiment.steps_per_delay, experiment.T

    def observed(v: jax.Array) -> jax.Array:
        solution = dd.solve(rebuild(v), T, dd.RK2(), n, differentiate="forward")
        return solution(experiment.clean.t) / scale

    jacobian = jax.jacfwd(observed)(jnp.asarray(vector))
    names = list(dd.parameter_values(experiment.true))
    return names, vector, np.asarray(jacobian).reshape(-1, len(vector))


def constants() -> dict:
    """HIV with all constants free, at noise 0.1: the singular vectors of the scaled
    Jacobian, the best determined direction of parameter space first.

    A spread is the standard deviation of the logarithms of the parameters along a
    direction (of the parameters themselves where they are zero)."""
    noise = 0.1
    experiment = EXPERIMENTS["hiv"]
    names, values, jacobian = _sensitivities(experiment)
    scaled = jacobian * np.where(values == 0, 1.0, values) / noise
    # Parameters on which no data depend (A and omega of T* and V_NI): zero columns.
    is_silent = np.linalg.norm(scaled, axis=0) < 1e-9
    kept = [name for name, out in zip(names, is_silent) if not out]
    _, singular, directions = np.linalg.svd(scaled[:, ~is_silent], full_matrices=False)
    spread = 1 / np.maximum(singular, 1e-300)
    rows = [
        {
            "spread": float(s),
            "direction": {n: round(float(x), 3) for n, x in zip(kept, v)},
        }
        for s, v in zip(spread, directions)
    ]
    return {
        "noise": noise,
        "without_influence": [n for n, out in zip(names, is_silent) if out],
        "directions": rows,
    }


def undetermined() -> dict:
    """The Cramér-Rao standard deviation of Cheyne's `a` at noise 0.1, with all
    parameters unknown."""
    experiment = EXPERIMENTS["cheyne"]
    names, values, jacobian = _sensitivities(experiment)
    covariance = np.linalg.inv((jacobian / 0.1).T @ (jacobian / 0.1))
    at = names.index("a")
    return {"true": float(values[at]), "sd": float(np.sqrt(covariance[at, at]))}


def _scatter(values: np.ndarray) -> list[float]:
    """A robust standard deviation of each column, from its quartiles: a few extreme
    values hardly change it."""
    low, high = np.percentile(values, [25, 75], axis=0)
    return [round(float(x), 6) for x in (high - low) / 1.349]


def random_starts() -> list[dict]:
    """Fits of one data set at noise 0.1 from 200 random starts within 50% of the truth,
    and how many of them end within 10% of it."""
    count, rows = 200, []
    for model, experiment in EXPERIMENTS.items():
        known = dd.parameter_values(experiment.true)
        true = np.array([known[name] for name in experiment.names.values()])
        size = np.where(true == 0, 1.0, np.abs(true))
        moves = np.random.default_rng(0).uniform(-0.5, 0.5, (count, len(true)))
        starts = [experiment.at(true + size * move) for move in moves]
        sets = [experiment.data(0.1, 0)] * count
        determined = np.isfinite(experiment.cramer_rao(1.0))
        names = experiment.parameters
        for protocol in ("published", "corrected"):
            settings = PROTOCOLS[protocol].settings_for(model)
            # With a delay of 0.01, ENSO would take too many steps.
            settings = replace(settings, shortest_delay=0.05)
            batch = fit_sets(experiment, settings, starts, sets)
            values = estimates(experiment, batch)
            near = np.abs(values - true) <= 0.1 * size
            rows.append(
                {
                    "model": model,
                    "protocol": protocol,
                    "starts": count,
                    "tau": int(near[:, names.index("tau")].sum()),
                    "all_determined": int(near[:, determined].all(axis=1).sum()),
                    "each": dict(zip(names, near.sum(axis=0).tolist())),
                    "scatter": dict(zip(names, _scatter(values))),
                }
            )
    return rows


def converged() -> list[dict]:
    """Least squares run until it converges (L-BFGS) on the data at noise 0.1, from the
    paper's start and from the truth. This shows what the data determine, whichever
    optimiser is used."""
    noise, rows = 0.1, []
    for model, experiment in EXPERIMENTS.items():
        sd = noise * np.std(experiment.clean.x, axis=0, ddof=1)
        noisy = [experiment.data(noise, repeat) for repeat in range(REPEATS)]
        sets = [dd.Data(data.t, data.x, sd=sd) for data in noisy]
        starts = {
            "paper": [experiment.start_for(data) for data in sets],
            "truth": [experiment.true] * len(sets),
        }
        row: dict[str, Any] = {"model": model, "noise": noise}
        losses = {}
        for name, problems in starts.items():
            batch = dd.fit_many(
                problems,
                sets,
                parameters={name: dd.Fixed() for name in experiment.fixed},
                loss=dd.SumOfSquares(),
                optimizer=dd.LBFGS(),
                solver=dd.RK2(),
                steps_per_delay=experiment.steps_per_delay,
                epochs=1000,
                progress=False,
            )
            columns = [batch.names.index(name) for name in experiment.names.values()]
            row[name] = _moments(batch.best[:, columns])
            losses[name] = batch.loss
        # Losses are in units of the noise. Two minima that differ by less than a
        # thousandth count as the same.
        lower = losses["truth"] < losses["paper"] - 1e-3
        rows.append({**row, "lower_from_truth": int(lower.sum()), "sets": len(sets)})
    return rows


def _moments(values: np.ndarray) -> dict:
    """The mean and the standard deviation of each column."""
    mean, sd = np.mean(values, axis=0), np.std(values, axis=0, ddof=1)
    return {"mean": mean.tolist(), "sd": sd.tolist()}


def epochs() -> list[dict]:
    """Exponential at noise 0.1, run for more and more epochs with the printed and with
    the correct gradient: how the spread over data sets grows until fits converge."""
    experiment = EXPERIMENTS["exponential"]
    sets = [experiment.data(0.1, repeat) for repeat in range(REPEATS)]
    starts = [experiment.start] * len(sets)
    rows = []
    for protocol in ("published", "corrected"):
        settings = PROTOCOLS[protocol].settings_for("exponential")
        for count in (500, 1500, 5000, 15000):
            longer = replace(settings, epochs=count, threshold=0.0)
            batch = fit_sets(experiment, longer, starts, sets)
            moments = _moments(estimates(experiment, batch))
            rows.append({"protocol": protocol, "epochs": count, **moments})
    return rows


def seeds() -> dict:
    """The published protocol with 20 seeds of the noise: how much rms z varies from
    seed to seed, how large it is for the mean over all seeds, and how often a delay
    falls to the published code's limit."""
    count, rows = 20, []
    for model, experiment in EXPERIMENTS.items():
        runs = [
            run_model(
                experiment, PROTOCOLS["published"], NOISE, REPEATS, seed, progress=False
            )
            for seed in range(count)
        ]
        for levels in zip(*runs):
            rms = [results.rms_z() for results in levels]
            tau = list(experiment.parameters).index("tau")
            delays = np.concatenate([results.estimates[:, tau] for results in levels])
            together = np.concatenate([results.estimates for results in levels])
            paper = experiment.published(levels[0].noise)
            assert paper is not None
            error = np.sqrt((np.var(together, axis=0, ddof=1) + paper.sd**2) / REPEATS)
            with np.errstate(invalid="ignore"):
                z = (np.mean(together, axis=0) - paper.mean) / error
            rows.append(
                {
                    "model": model,
                    "noise": levels[0].noise,
                    "rms_z": [round(value, 3) for value in rms],
                    "rms_z_of_all": float(np.sqrt(np.nanmean(z**2))),
                    "at_shortest_delay": int(np.sum(delays <= 0.01)),
                    "fits": len(delays),
                }
            )
    return {"seeds": count, "cells": rows}
