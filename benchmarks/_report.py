"""One line of the table, and how it prints."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Row:
    """What was measured, the time, and a figure with the most that it should be."""

    what: str
    measured: str
    figure: float | None = None
    goal: float | None = None
    note: str = ""

    def __str__(self) -> str:
        figure = "" if self.figure is None else f"{self.figure:.2f}"
        goal = "" if self.goal is None else f"<= {self.goal:g}"
        return (
            f"  {self.what:<46}{self.measured:>12}{figure:>9}{goal:>9}"
            f"  {self.verdict:<4} {self.note}"
        ).rstrip()

    @property
    def verdict(self) -> str:
        if self.figure is None or self.goal is None:
            return ""
        return "ok" if self.figure <= self.goal else "MISS"


HEADER = f"  {'':<46}{'measured':>12}{'figure':>9}{'goal':>9}"


def microseconds(seconds: float) -> str:
    return f"{1e6 * seconds:.4g} us"
