"""What the figures depend on: versions, BLAS and cores. No path, no host or user name."""

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import numpy as np

PACKAGES = (
    "stillspace", "numpy", "scipy", "scikit-learn", "numba", "pymanopt", "dp-accounting",
)  # fmt: skip


def version(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def named(package: str) -> str:
    """Return a peer's name with its version, as in "numpy 2.4.6"."""
    return f"{package} {version(package) or '(not installed)'}"


def facts() -> dict[str, Any]:
    from stillspace import __version__  # noqa: PLC0415 (works from a source tree too)

    versions = {name: version(name) for name in PACKAGES}
    versions["stillspace"] = __version__
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": versions,
        "pools": pools(),
        "cores": cores(),
        "memory_gib": memory_gib(),
        "load_at_start": load(),
    }


def pools() -> list[dict[str, Any]]:
    """Return the thread pools in use (BLAS, OpenMP): kind, version and threads."""
    from threadpoolctl import threadpool_info  # noqa: PLC0415 (comes with scikit-learn)

    np.ones((2, 2)) @ np.ones((2, 2))
    kept = ("user_api", "internal_api", "version", "num_threads", "architecture")
    return unique({k: pool[k] for k in kept if pool.get(k)} for pool in threadpool_info())


def unique(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for item in items:
        if item not in found:
            found.append(item)
    return found


def cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_gib() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (AttributeError, ValueError, OSError):
        return None


def load() -> float | None:
    """Return the load average of the last minute: above the cores, trust the ratios less."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
