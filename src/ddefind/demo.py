"""`make demo`: learn the delayed logistic equation from a noisy data set."""

from importlib.resources import as_file, files
from pathlib import Path

import ddefind as dd


def logistic_data() -> dd.Data:
    """101 noisy values of a solution of the delayed logistic equation.

    theta_0 = 2, theta_1 = 1.5, tau = 1, x = 2 before time 0; RK4, noise of 0.1 times
    the solution's standard deviation, numpy's generator with seed 1.

    >>> len(logistic_data())
    101
    """
    with as_file(files("ddefind").joinpath("data/logistic.csv")) as path:
        return dd.read_csv(path, label="delayed logistic equation")


TRUE = {"theta_0": 2.0, "theta_1": 1.5, "b": 2.0, "tau": 1.0}


def main() -> None:
    data = logistic_data()
    start = dd.Problem(
        rhs=dd.models.Logistic(theta_0=1.0, theta_1=1.0),
        history=dd.Constant(2.6),
        tau=0.5,
    )
    fit = dd.fit(start, data, optimizer=dd.Adam(dd.Cosine(0.03)), epochs=1000)
    print("x'(t) = theta_0 x(t) (1 - theta_1 x(t - tau)),  x = b before time 0\n")
    print(f"{'parameter':<11}{'start':>10}{'learned':>10}{'true':>10}")
    for name, first in zip(fit.names, fit.first):
        print(f"{name:<11}{first:>10.4g}{fit.values[name]:>10.4f}{TRUE[name]:>10.4g}")
    print(f"\n{fit.epochs} epochs in {fit.seconds:.2g} s, compilation included.")
    figure = Path("out") / "demo.png"
    figure.parent.mkdir(exist_ok=True)
    fit.plot().savefig(figure, dpi=150)
    print(f"Figure: {figure}")


if __name__ == "__main__":
    main()
