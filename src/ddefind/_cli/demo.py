"""`ddefind demo`: learn the delayed logistic equation from a noisy data set."""

from importlib.resources import as_file, files
from pathlib import Path

import ddefind as dd


def logistic_data() -> dd.Data:
    """Return 101 noisy values of a solution of the delayed logistic equation.

    The parameters are `TRUE`, and x = 2 before time 0. The solution was computed by
    RK4. The noise has 0.1 times the standard deviation of the solution, and was drawn
    by NumPy's default generator with seed 1.

    >>> len(logistic_data())
    101
    """
    with as_file(files("ddefind").joinpath("_cli/logistic.csv")) as path:
        return dd.read_csv(path, label="delayed logistic equation")


EQUATION = "x' = theta_0 * x * (1 - theta_1 * x(t - tau))"
TRUE = {"theta_0": 2.0, "theta_1": 1.5, "b": 2.0, "tau": 1.0}


def main() -> None:
    """Fit, print the result beside the true values, and write figure and report."""
    model = dd.equation(EQUATION, history="constant")
    fit = dd.fit(model, logistic_data())
    print(f"{model},  x = b before time 0\n")
    print(fit)
    true = ", ".join(f"{name} {value:g}" for name, value in TRUE.items())
    print(f"\nTrue values: {true}.")
    figure = Path("out") / "demo.png"
    figure.parent.mkdir(exist_ok=True)
    fit.plot().savefig(figure, dpi=150)
    report = figure.with_suffix(".html")
    fit.report(report)
    print(f"Figure: {figure}")
    print(f"Report: {report} (open it in a browser)")


if __name__ == "__main__":
    main()
