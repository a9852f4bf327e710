"""Writing bundles: a graph, its manifest and golden rows in one sealed file."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from .bundle import encode_metadata, seal
from .manifest import Manifest


def write_bundle(path: Path, model: onnx.ModelProto, manifest: Manifest, golden: Mapping[str, np.ndarray]) -> None:
    """Attach manifest and golden rows to a model and write it, whole or not at all."""
    helper.set_model_props(model, encode_metadata(manifest, golden))
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(seal(model.SerializeToString()))
    temporary.replace(path)
