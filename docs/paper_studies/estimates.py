"""What the data determine, and where fits end."""

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
    """Names and values of all parameters, known ones too, and the derivatives of the
    data, in standard deviations of the noise at level 1."""
    vector, rebuild = flat(experiment.true)
    scale = np.std(experiment.clean.x, axis=0, ddof=1)
    n, T = experiment.steps_per_delay, experiment.T

    def observed(v):
        found = dd.solve(rebuild(v), T, dd.RK2(), n, differentiate="forward")
        return found(experiment.clean.t) / scale

    jacobian = jax.jacfwd(observed)(jnp.asarray(vector))
    names = list(dd.parameter_values(experiment.true))
    return names, vector, np.asarray(jacobian).reshape(-1, len(vector))


def constants() -> dict:
    """HIV with all constants free: the directions in parameter space in order of how
    well the data determine them, at noise 0.1. A spread is that of the logarithms (of
    the values themselves where they are zero)."""
    noise = 0.1
    experiment = EXPERIMENTS["hiv"]
    names, values, jacobian = _sensitivities(experiment)
    scaled = jacobian * np.where(values == 0, 1.0, values) / noise
    # What nothing depends on: columns of zeros (A and omega of T* and V_NI).
    silent = np.linalg.norm(scaled, axis=0) < 1e-9
    kept = [name for name, out in zip(names, silent) if not out]
    _, singular, directions = np.linalg.svd(scaled[:, ~silent], full_matrices=False)
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
        "without_influence": [n for n, out in zip(names, silent) if out],
        "directions": rows,
    }


def undetermined() -> dict:
    """The Cramer-Rao sd of Cheyne's `a` at noise 0.1, with all parameters unknown."""
    experiment = EXPERIMENTS["cheyne"]
    names, values, jacobian = _sensitivities(experiment)
    covariance = np.linalg.inv((jacobian / 0.1).T @ (jacobian / 0.1))
    at = names.index("a")
    return {"true": float(values[at]), "sd": float(np.sqrt(covariance[at, at]))}


def _scatter(values: np.ndarray) -> list[float]:
    """A standard deviation that a few wild values do not spoil, of each column."""
    low, high = np.percentile(values, [25, 75], axis=0)
    return [round(float(x), 6) for x in (high - low) / 1.349]


def random_starts() -> list[dict]:
    """Fits of one data set at noise 0.1 from 200 starts within 50% of the truth: how
    many end within 10% of it."""
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
            # ENSO's steps would be too many at the published limit.
            settings = replace(settings, shortest_delay=0.05)
            batch = fit_sets(experiment, settings, starts, sets)
            found = estimates(experiment, batch)
            near = np.abs(found - true) <= 0.1 * size
            rows.append(
                {
                    "model": model,
                    "protocol": protocol,
                    "starts": count,
                    "tau": int(near[:, names.index("tau")].sum()),
                    "all_determined": int(near[:, determined].all(axis=1).sum()),
                    "each": dict(zip(names, near.sum(axis=0).tolist())),
                    "scatter": dict(zip(names, _scatter(found))),
                }
            )
    return rows


def converged() -> list[dict]:
    """Least squares run to its end (L-BFGS) on the data at noise 0.1, from the paper's
    start and from the truth: what the data hold, whatever the optimiser."""
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
        # A loss is in units of the noise: below a thousandth two minima are the same.
        lower = losses["truth"] < losses["paper"] - 1e-3
        rows.append({**row, "lower_from_truth": int(lower.sum()), "sets": len(sets)})
    return rows


def _moments(values: np.ndarray) -> dict:
    mean, sd = np.mean(values, axis=0), np.std(values, axis=0, ddof=1)
    return {"mean": mean.tolist(), "sd": sd.tolist()}


def epochs() -> list[dict]:
    """Exponential at noise 0.1, run for longer with the printed and with the right
    gradient: the spread grows from that of a path to that of an estimate."""
    experiment = EXPERIMENTS["exponential"]
    sets = [experiment.data(0.1, repeat) for repeat in range(REPEATS)]
    starts = [experiment.start] * len(sets)
    rows = []
    for protocol in ("published", "corrected"):
        settings = PROTOCOLS[protocol].settings_for("exponential")
        for count in (500, 1500, 5000, 15000):
            longer = replace(settings, epochs=count, threshold=0.0)
            batch = fit_sets(experiment, longer, starts, sets)
            found = _moments(estimates(experiment, batch))
            rows.append({"protocol": protocol, "epochs": count, **found})
    return rows


def seeds() -> dict:
    """The published protocol with 20 seeds: how far luck moves rms z, what remains when
    it is averaged out, and how often a delay falls to the published code's limit."""
    count, rows = 20, []
    for model, experiment in EXPERIMENTS.items():
        runs = [
            run_model(
                experiment, PROTOCOLS["published"], NOISE, REPEATS, seed, progress=False
            )
            for seed in range(count)
        ]
        for records in zip(*runs):
            rms = [record.rms_z() for record in records]
            tau = list(experiment.parameters).index("tau")
            delays = np.concatenate([record.estimates[:, tau] for record in records])
            together = np.concatenate([record.estimates for record in records])
            paper = experiment.published(records[0].noise)
            assert paper is not None
            error = np.sqrt((np.var(together, axis=0, ddof=1) + paper.sd**2) / REPEATS)
            with np.errstate(invalid="ignore"):
                z = (np.mean(together, axis=0) - paper.mean) / error
            rows.append(
                {
                    "model": model,
                    "noise": records[0].noise,
                    "rms_z": [round(value, 3) for value in rms],
                    "rms_z_of_all": float(np.sqrt(np.nanmean(z**2))),
                    "at_shortest_delay": int(np.sum(delays <= 0.01)),
                    "fits": len(delays),
                }
            )
    return {"seeds": count, "cells": rows}
