#!/bin/sh
# Opens a dataset of isthmus with the lerobot package, in an environment of its own: lerobot pins other versions than isthmus.
# Usage: tests/lerobot/run.sh [folder for the environment]; takes some minutes and about 2 GB the first time.
set -eu
cd "$(dirname "$0")/../.."
env="${1:-${TMPDIR:-/tmp}/isthmus-lerobot}"
if ! "$env/bin/python" -c "import importlib.metadata as m; assert m.version('lerobot') == '0.4.4'" 2>/dev/null; then
    python3.11 -m venv "$env"
    # Without its own pins (torch<2.11 among them), which need not be installable here; these are what reading a dataset imports.
    "$env/bin/pip" install "torch>=2.9,<2.14" "datasets>=4,<5" "huggingface-hub>=0.34.2,<0.36" "av<16" einops "draccus==0.10.0" \
        "packaging<26" jsonlines deepdiff pandas pyarrow "gymnasium<2" accelerate opencv-python-headless imageio termcolor pyserial
    "$env/bin/pip" install --no-deps torchvision "lerobot==0.4.4"
fi
ISTHMUS_LEROBOT_PYTHON="$env/bin/python" exec .venv/bin/pytest -q tests/policies/test_dataset.py -k lerobot_itself
