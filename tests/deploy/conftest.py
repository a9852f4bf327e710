"""Makes the helpers beside the tests importable, also in processes that a test spawns."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
