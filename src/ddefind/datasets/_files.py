"""Where the tables are: one CSV file each, inside the package."""

from pathlib import Path

from .._util.errors import did_you_mean

# What each table holds, by its name.
NAMES = {
    "lynx_hare": "pelts of hares and lynx, in thousands, 1900 to 1920",
    "blowflies": "adult blowflies in Nicholson's cage, every second day",
    "influenza": "boys in bed and convalescent in a boarding school, 1978",
    "nino34": "temperature of the equatorial Pacific (ENSO), 1950 to 2015",
    "theophylline": "concentrations of a drug in the serum of twelve people",
}


def path(name: str) -> Path:
    """Return the CSV file of a table, for other programs to read.

    >>> path("lynx_hare").name
    'lynx_hare.csv'
    """
    if name not in NAMES:
        raise ValueError(
            f"There is no data set {name!r}.{did_you_mean(name, NAMES)} The data sets "
            f"are {', '.join(NAMES)}."
        )
    return Path(__file__).with_name(f"{name}.csv")
