"""A model that `discover` found."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class FoundModel:
    """A model that `discover` found: its equations with coefficients c_1, c_2, ..., the
    terms of each state, its delays, the number of parameters, its BIC (up to a number
    that all models of these data share), its score (the BIC with charges for terms and
    delays), and its weight among all models."""

    text: str
    terms: Mapping[str, tuple[str, ...]]
    delays: Mapping[str, float]
    parameters: int
    bic: float
    score: float
    weight: float

    @property
    def label(self) -> str:
        """The equations without coefficients, in one line."""
        parts = [f"{s}' ~ {' + '.join(own) or '0'}" for s, own in self.terms.items()]
        return "; ".join(parts)
