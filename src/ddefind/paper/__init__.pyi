from ._experiments import (
    EXPERIMENTS as EXPERIMENTS,
    NOISE as NOISE,
    PROTOCOLS as PROTOCOLS,
    Experiment as Experiment,
    PaperExperiment as PaperExperiment,
    Protocol as Protocol,
)
from ._run import (
    LevelResults as LevelResults,
    PaperError as PaperError,
    Plan as Plan,
    ResultsFolder as ResultsFolder,
    load_results as load_results,
    reproduce as reproduce,
)
