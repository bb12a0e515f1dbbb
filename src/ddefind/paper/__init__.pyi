from ._experiments import (
    EXPERIMENTS as EXPERIMENTS,
    NOISE as NOISE,
    PROTOCOLS as PROTOCOLS,
    Experiment as Experiment,
    Protocol as Protocol,
)
from ._records import Record as Record
from ._run import (
    Plan as Plan,
    Results as Results,
    load_results as load_results,
    reproduce as reproduce,
)
