"""Writing bundles: a graph, its manifest and golden rows in one sealed file."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from isthmus.hardware.files import replacing

from .bundle import Bundle, BundleError, encode_metadata, load_bundle, seal
from .manifest import Manifest


def write_bundle(path: Path, model: onnx.ModelProto, manifest: Manifest, golden: Mapping[str, np.ndarray]) -> Bundle:
    """Attach manifest and golden rows to a model and write it; a bundle that does not load and replay never takes the place of another.

    Raises:
        BundleError: the model does not compute its golden rows; whatever was at `path` is still there.
        OSError: names the file.
    """
    helper.set_model_props(model, encode_metadata(manifest, golden))
    with replacing(path) as temporary:
        temporary.write_bytes(seal(model.SerializeToString()))
        try:
            bundle = load_bundle(temporary)
        except BundleError as error:
            raise BundleError(str(error).replace(str(temporary), str(path))) from None
    return replace(bundle, path=path)
