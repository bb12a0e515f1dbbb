"""One function for each table. Its docstring says what was measured, in which units,
where it was published, and which two sources the numbers were compared in."""

from collections.abc import Sequence

from .._data.data import Data
from .._data.read_csv import read_csv
from .._data.read_study import read_study
from .._data.study_data import Experiment
from ._files import path


def _table(name: str, label: str, *axis_labels: str) -> Data:
    """Return a table with a label, and with units on the axes of its figures."""
    data = read_csv(path(name), label=label)
    return data.with_fields(axis_labels=axis_labels)


def lynx_hare() -> Data:
    """Load the pelts of snowshoe hare and Canadian lynx that the Hudson's Bay Company
    collected, 1900 to 1920.

    **Quantities**: `hare` and `lynx`, in thousands of pelts a year. Time is in years
    since 1900. The record begins and ends in the middle of a cycle of about ten years.

    **Reference**: D. A. MacLulich, *Fluctuations in the numbers of the varying hare*,
    University of Toronto Studies, Biological Series 43 (1937); C. Elton and M.
    Nicholson, *The ten-year cycle in numbers of the lynx in Canada*, Journal of Animal
    Ecology 11 (1942) 215.

    **Sources**: `hudson-bay-lynx-hare.csv` of Stan's example models and `Lynx_Hare.csv`
    of the R package rethinking. All 42 numbers agree.

    >>> dd.datasets.lynx_hare()
    Data 'hare and lynx': 21 times in [0, 20] since 1900, 2 quantities (hare, lynx)
    """
    axes = ("years since 1900", "hare (thousand pelts)", "lynx (thousand pelts)")
    return _table("lynx_hare", "hare and lynx", *axes)


def blowflies() -> Data:
    """Load the number of adults in a cage of blowflies (*Lucilia cuprina*) with limited
    food, counted on every second day for 400 days: an experiment of A. J. Nicholson.

    **Quantity**: `adults`, a count. Time is in days. From egg to adult the flies take
    about two weeks, and the population cycles with a period of nearly 40 days.

    **Reference**: A. J. Nicholson, *The self-adjustment of populations to change*, Cold
    Spring Harbor Symposia on Quantitative Biology 22 (1957) 153; D. R. Brillinger, J.
    Guckenheimer, P. Guttorp and G. Oster, *Empirical modelling of population time
    series data*, Lectures on Mathematics in the Life Sciences 13 (1980) 65.

    **Sources**: `blowflies` (set 4) of the R package pomp and `blowfly97I` of the R
    package fitode. All 201 counts up to day 400 agree. The experiment went on to day
    720, but on day 402 the sources differ, and the table ends before it.

    >>> dd.datasets.blowflies()
    Data 'blowflies': 201 times in [0, 400], 1 quantity (adults)
    """
    return _table("blowflies", "blowflies", "days", "adults")


def influenza() -> Data:
    """Load an outbreak of influenza among the 763 boys of an English boarding school,
    22 January to 4 February 1978.

    **Quantities**: `in_bed` and `convalescent`, the number of boys on each day. Time is
    in days since 22 January. A single boy had brought the infection; 512 fell ill.

    **Reference**: *Influenza in a boarding school*, British Medical Journal 1 (1978)
    587. The journal printed a curve, and the numbers were read from it: other readings
    differ by a few boys.

    **Sources**: `influenza_england_1978_school` of the package Outbreaks.jl, which has
    it from the R package outbreaks, and a published program in JavaScript that names
    the same book and package. All 28 numbers agree.

    >>> dd.datasets.influenza()
    Data 'influenza': 14 times in [0, 13] since 1978-01-22, 2 quantities (in_bed, ...)
    """
    axes = ("days since 22 January 1978", "boys in bed", "boys convalescent")
    return _table("influenza", "influenza", *axes)


def nino34() -> Data:
    """Load the index of El Nino and La Nina: how much warmer the sea surface is than
    usual in the Nino 3.4 region of the equatorial Pacific, monthly from 1950 to 2015.

    **Quantity**: `nino34`, in degrees Celsius above the mean of the same month in 1981
    to 2010, over 5 S to 5 N and 120 W to 170 W. Time is in years since January 1950.

    **Reference**: NOAA Climate Prediction Center, `ersst4.nino.mth.81-10.ascii`; B.
    Huang and others, *Extended Reconstructed Sea Surface Temperature version 4*,
    Journal of Climate 28 (2015) 911.

    **Sources**: the copies of that file in the Python package PyWavelets (of 2016) and
    in the repository kamdh/tvart (of 2017). All 792 numbers agree. NOAA revises the
    last months of each edition, and from February 2016 on the copies differ.

    >>> dd.datasets.nino34()
    Data 'Nino 3.4': 792 times in [0, 65.9167] since 1950, 1 quantity (nino34)
    """
    return _table("nino34", "Nino 3.4", "years since 1950", "Nino 3.4 (degrees C)")


def theophylline(values: str | Sequence[str] = "dose") -> list[Experiment]:
    """Load the concentrations of theophylline, a drug against asthma, in the serum of
    twelve people who took one dose by mouth: an experiment for each person.

    **Argument**: `values` are the known numbers of a person that the equation uses, of
    `dose` (in mg) and `weight` (in kg).

    **Quantity**: `concentration`, in mg/l, ten times for each person. Time is in hours
    after the dose. (A sample before the dose is not in the table.)

    **Reference**: a study of R. Upton in A. J. Boeckmann, L. B. Sheiner and S. L. Beal,
    *NONMEM Users Guide: Part V*, University of California, San Francisco (1994).

    **Sources**: `Theoph` of R's package datasets and `theo.saemix` of the R package
    saemix. All 120 times, 120 concentrations, 12 doses and 12 weights agree.

    >>> first, *others = dd.datasets.theophylline()
    >>> first.label, first.values, len(others)
    ('1', {'dose': 319.992}, 11)
    >>> first.data
    Data '1': 10 times in [0.25, 24.37], 1 quantity (concentration)
    """
    axes = ("hours after the dose", "concentration (mg/l)")
    return [
        Experiment(each.data.with_fields(axis_labels=axes), values=each.values)
        for each in read_study(
            path("theophylline"),
            group="subject",
            values=values,
            columns=["concentration"],
        )
    ]
