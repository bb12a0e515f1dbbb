"""What ddefind sets in JAX: double precision, fast loops on a CPU, and the cache of
compiled programs.

No setting loads JAX, and each respects what the user has set already:

- Precision: ddefind computes in float64, since least squares and delays need more than
  seven digits. `JAX_ENABLE_X64` in the environment overrides this.
- Loops: XLA's CPU backend runs a loop one operation at a time, about a microsecond
  each, unless the loop's data are smaller than
  `xla_cpu_small_while_loop_byte_threshold`. ddefind raises that limit, so that a whole
  solve is compiled to one piece of machine code, which is more than ten times faster.
  The option is internal to XLA: without it all results are the same, only later. It
  must be set before JAX computes for the first time. A value that `XLA_FLAGS` already
  holds is kept.
- Cache: a folder of compiled programs, so that neither the next command nor the next
  worker compiles them again. It is in the user's folder for caches. The environment
  variable `DDEFIND_CACHE` names another folder, or is `off`."""

import os
import sys
import warnings
from pathlib import Path

_LOOP_OPTION = "xla_cpu_small_while_loop_byte_threshold"


def configure_jax() -> None:
    """Set float64 and compiled loops, in the environment or in JAX if it is loaded."""
    flags = os.environ.get("XLA_FLAGS", "")
    if _LOOP_OPTION not in flags and "xla_backend_extra_options" not in flags:
        option = f"--xla_backend_extra_options={_LOOP_OPTION}=1000000000"
        os.environ["XLA_FLAGS"] = f"{flags} {option}".strip()
    if "JAX_ENABLE_X64" in os.environ:
        return
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", True)
    else:
        os.environ["JAX_ENABLE_X64"] = "1"  # JAX reads it when it is imported


_FOLDER = "JAX_COMPILATION_CACHE_DIR"
_LEAST_SECONDS = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
# If the cache holds more files than this, some hundred megabytes, the older half is
# deleted.
_MOST_FILES = 2000
# The names of JAX's programs and of those that a C compiler made end so.
_PROGRAMS = ("-cache", ".so")


def set_up_cache() -> None:
    """Let JAX use the cache folder, unless it is switched off, set already, or cannot
    be written. Programs that JAX has compiled before are not in it."""
    wanted = os.environ.get("DDEFIND_CACHE", "")
    if wanted.lower() in ("off", "0", "no", "false") or _FOLDER in os.environ:
        return
    folder = Path(wanted) if wanted else _user_cache() / "ddefind"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _delete_old_programs(folder)
    except (OSError, RuntimeError):  # RuntimeError: the user has no home folder
        return
    if not os.access(folder, os.W_OK):
        return
    if "jax" in sys.modules:  # It has read the environment.
        config = sys.modules["jax"].config
        if not config.jax_compilation_cache_dir:
            config.update("jax_compilation_cache_dir", str(folder))
            if _LEAST_SECONDS not in os.environ:
                config.update("jax_persistent_cache_min_compile_time_secs", 0)
    os.environ[_FOLDER] = str(folder)
    # By default JAX keeps only programs that take a second to compile. Ours take less.
    os.environ.setdefault(_LEAST_SECONDS, "0")
    # A program that cannot be read is compiled again, so there is no need to warn.
    warnings.filterwarnings("ignore", message=".*persistent compilation cache.*")


def _user_cache() -> Path:
    """Return the folder for caches on this operating system."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _delete_old_programs(folder: Path) -> None:
    """Delete the older half of the programs if there are too many."""
    with os.scandir(folder) as entries:
        files = [entry for entry in entries if entry.name.endswith(_PROGRAMS)]
    if len(files) > _MOST_FILES:
        files.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in files[: len(files) // 2]:
            Path(entry.path).unlink(missing_ok=True)
