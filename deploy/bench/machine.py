"""The machine at hand, in a line."""

import os
import platform
from pathlib import Path


def machine_text() -> str:
    """Processor, CPUs that this process may use, kernel, Python."""
    cpus = len(os.sched_getaffinity(0))
    return f"{_processor()}, {cpus} CPUs, Linux {platform.release()}, Python {platform.python_version()}"


def _processor() -> str:
    """The processor's name, where Linux tells it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
