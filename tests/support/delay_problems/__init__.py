"""Delay equations with known solutions: DDETST, RADAR5's examples, and others."""

from . import ddetst_neutral, ddetst_retarded, others, radar5
from .known import Known as Known

RETARDED = {known.name: known for known in ddetst_retarded.PROBLEMS}
NEUTRAL = {known.name: known for known in ddetst_neutral.PROBLEMS}
STIFF = {known.name: known for known in radar5.PROBLEMS}
OTHERS = {known.name: known for known in others.PROBLEMS}
ALL = RETARDED | NEUTRAL | STIFF | OTHERS
