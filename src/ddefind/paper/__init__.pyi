from ._experiments import (
    EXPERIMENTS as EXPERIMENTS,
)
from ._experiments import (
    NOISE as NOISE,
)
from ._experiments import (
    PROTOCOLS as PROTOCOLS,
)
from ._experiments import (
    Experiment as Experiment,
)
from ._experiments import (
    Protocol as Protocol,
)
from ._level_results import LevelResults as LevelResults
from ._run import (
    PaperError as PaperError,
)
from ._run import (
    Plan as Plan,
)
from ._run import (
    ResultsFolder as ResultsFolder,
)
from ._run import (
    load_results as load_results,
)
from ._run import (
    reproduce as reproduce,
)
