"""A program that makes fits of `sweep_fits.py`, to be killed.

python -m support.sweep_client FOLDER JOURNAL --executor 2 --fits 40 --seconds 0.1"""

import argparse
from importlib import import_module
from typing import Any

import ddefind as dd
from support.sweep_fits import Written, sets, start


def main() -> None:
    read = argparse.ArgumentParser()
    read.add_argument("folder")
    read.add_argument("journal")
    read.add_argument("--executor")
    read.add_argument("--fits", type=int, default=40)
    read.add_argument("--seconds", type=float, default=0.1)
    read.add_argument("--largest-file", type=int)
    given = read.parse_args()
    if given.largest_file:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, 2 * (given.largest_file,))
    executor: Any = given.executor
    if executor is not None and executor.isdigit():
        executor = int(executor)
    elif executor is not None:
        distributed = import_module("distributed")
        executor = distributed.Client(executor, set_as_default=False)
    method = Written(given.journal, given.seconds)
    where: Any = {"executor": executor, "folder": given.folder}
    print(dd.fit_many(start(), sets(given.fits), optimizer=method, **where))


if __name__ == "__main__":
    main()
