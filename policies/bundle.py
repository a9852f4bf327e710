"""A policy as one file: ONNX graph from raw signals to joint targets, its manifest and golden rows, checked on load.

Needs onnxruntime only. The manifest (JSON) and the golden rows (npz, base64) are metadata properties of the ONNX model.
"""

import base64
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime as ort

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.structure import FormatError, structure, unstructure

from .bundle_policy import PART_OUTPUTS, BundlePolicy, target_output
from .contract import Contract, ContractError
from .contract_checks import check_contract
from .manifest import SCHEMA, Manifest
from .migration import migrated_manifest
from .onnx_header import HeaderError, check_header

MANIFEST_KEY, GOLDEN_KEY, DIGEST_KEY = "isthmus.manifest", "isthmus.golden", "isthmus.sha256"
_NO_DIGEST = "0" * 64
_DIGEST = re.compile(re.escape(DIGEST_KEY.encode()) + rb".{1,4}?([0-9a-f]{64})", re.DOTALL)
LARGEST_BYTES = 256 * 1024 * 1024
LARGEST_GOLDEN_BYTES = 16 * 1024 * 1024
GOLDEN_TOLERANCE = 1e-5  # rad, action units, and of other units this share of the largest value


class BundleError(IsthmusError, ValueError):
    """A bundle cannot be trusted: unreadable, incomplete, or its golden rows do not come out."""


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A loaded and verified bundle."""

    path: Path
    sha256: str
    manifest: Manifest
    session: ort.InferenceSession
    golden: dict[str, np.ndarray]

    def policy(self) -> BundlePolicy:
        """A policy that runs this bundle."""
        return BundlePolicy(self)


def encode_metadata(manifest: Manifest, golden: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The metadata properties that make an ONNX model a bundle. Golden arrays: (rows, width) float32 by tensor name."""
    buffer = io.BytesIO()
    np.savez(buffer, **{name: np.asarray(rows, dtype=np.float32) for name, rows in golden.items()})  # pyright: ignore[reportArgumentType]
    return {
        MANIFEST_KEY: json.dumps(unstructure(manifest), sort_keys=True),
        GOLDEN_KEY: base64.b64encode(buffer.getvalue()).decode(),
        DIGEST_KEY: _NO_DIGEST,  # `seal` fills it in
    }


def seal(data: bytes) -> bytes:
    """The file with the digest of its own bytes written into it, so that graph, manifest and golden rows belong together.

    The digest is taken with zeros in its place. Raises BundleError where there is no place for it.
    """
    found = _DIGEST.search(data)
    if found is None:
        raise BundleError(f"the model has no property {DIGEST_KEY!r}; make it with `encode_metadata`")
    start, end = found.span(1)
    blank = data[:start] + _NO_DIGEST.encode() + data[end:]
    return blank[:start] + hashlib.sha256(blank).hexdigest().encode() + blank[end:]


def load_bundle(path: Path | str) -> Bundle:
    """Read a bundle, check it against its own manifest and replay its golden rows.

    Raises:
        BundleError: says what is wrong with the file and what to do.
    """
    path = Path(path)
    data = _read(path)
    if _DIGEST.search(data) is not None:  # before anything is parsed
        _check_digest(data, path)
    try:
        check_header(data)
    except HeaderError as error:
        raise BundleError(f"{path}: {error}") from None
    session = _open_session(data, path)
    properties = _properties(session, path)
    for key in (MANIFEST_KEY, GOLDEN_KEY, DIGEST_KEY):
        if key not in properties:
            raise BundleError(
                f"{path}: an ONNX file without {key!r} is not an isthmus bundle; make one with `isthmus export`"
            )
    _check_digest(data, path)
    try:
        manifest = structure(
            migrated_manifest(json.loads(properties[MANIFEST_KEY])), Manifest, source=f"{path}: manifest"
        )
        check_contract(manifest.contract)
        golden = _decode_golden(properties[GOLDEN_KEY])
    except (FormatError, ContractError, json.JSONDecodeError) as error:
        raise BundleError(f"{path}: {error}") from None
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise BundleError(f"{path}: the golden rows cannot be read: {error}; export the policy again") from None
    if manifest.schema != SCHEMA:
        raise BundleError(f"{path}: bundle schema {manifest.schema}; this isthmus reads schema {SCHEMA}")
    bundle = Bundle(
        path=path, sha256=hashlib.sha256(data).hexdigest(), manifest=manifest, session=session, golden=golden
    )
    _check_tensors(bundle)
    _replay(bundle)
    return bundle


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise BundleError(f"{path}: a directory, not a bundle; `isthmus export` makes one from a training run")
    if path.exists() and not path.is_file():
        raise BundleError(f"{path}: no regular file, expected a bundle; `isthmus export` makes one from a training run")
    if not path.is_file():
        raise BundleError(f"{path}: no such bundle; `isthmus export` makes one from a training run")
    if path.stat().st_size > LARGEST_BYTES:
        raise BundleError(f"{path}: {path.stat().st_size} bytes; a bundle has at most {LARGEST_BYTES}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {error.strerror}") from None


def _signal_widths(contract: Contract) -> dict[str, int]:
    return {name: contract.signal_width(name) for name in contract.signals}


def _open_session(data: bytes, path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises its own classes, one per cause
        raise BundleError(f"{path}: not an ONNX model that onnxruntime {ort.__version__} can load: {error}") from None


def _check_digest(data: bytes, path: Path) -> None:
    if _DIGEST.search(data) is None or seal(data) != data:
        raise BundleError(
            f"{path}: the file is damaged or was edited: its bytes do not have the digest it carries. Do not run it: export again"
        )


def _properties(session: ort.InferenceSession, path: Path) -> dict[str, str]:
    try:
        return session.get_modelmeta().custom_metadata_map
    except UnicodeDecodeError as error:
        raise BundleError(f"{path}: the file is damaged: its properties are no text ({error}); export again") from None


def _decode_golden(text: str) -> dict[str, np.ndarray]:
    packed = io.BytesIO(base64.b64decode(text, validate=True))
    with zipfile.ZipFile(packed) as members:
        size = sum(member.file_size for member in members.infolist())
    if size > LARGEST_GOLDEN_BYTES:
        raise ValueError(f"they unpack to {size} bytes, more than {LARGEST_GOLDEN_BYTES}")
    with np.load(packed, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _check_tensors(bundle: Bundle) -> None:
    states = {f"state.{s.name}": s.width for s in bundle.manifest.states}
    expected = {**_signal_widths(bundle.manifest.contract), **states}
    found = {tensor.name: tensor.shape for tensor in bundle.session.get_inputs()}
    if found != {name: [1, width] for name, width in expected.items()}:
        raise BundleError(
            f"{bundle.path}: graph inputs {found} differ from the manifest's {expected} (each of shape [1, width])"
        )
    wanted = {
        target_output(bundle.manifest.contract),
        *PART_OUTPUTS,
        *(f"next.{s.name}" for s in bundle.manifest.states),
    }
    outputs = {tensor.name: tensor.shape for tensor in bundle.session.get_outputs()}
    if missing := wanted - set(outputs):
        raise BundleError(f"{bundle.path}: the graph lacks outputs {sorted(missing)}")
    wide = {f"next.{s.name}": s.width for s in bundle.manifest.states}
    wide[target_output(bundle.manifest.contract)] = bundle.manifest.contract.signal_width(
        bundle.manifest.contract.action.target
    )
    for name in sorted(wanted):
        shape = outputs[name]
        if len(shape) != 2 or shape[0] != 1 or not isinstance(shape[1], int) or shape[1] != wide.get(name, shape[1]):
            raise BundleError(
                f"{bundle.path}: output {name!r} has shape {shape}; expected [1, {wide.get(name, 'a fixed width')}]"
            )


def _replay(bundle: Bundle) -> None:
    policy, golden = bundle.policy(), bundle.golden
    target = target_output(bundle.manifest.contract)
    checked = (target, "base_action", *(("residual_action", "gate") if bundle.manifest.residual else ()))
    signals = _signal_widths(bundle.manifest.contract)
    missing = [name for name in (*signals, *checked) if name not in golden]
    if missing or len(golden[target]) < 2:
        raise BundleError(f"{bundle.path}: golden rows are missing for {missing or 'more than one tick'}; export again")
    for row in range(len(golden[target])):
        outputs = policy.run({name: golden[name][row] for name in signals})
        for name in checked:
            if not np.isfinite(outputs[name]).all():
                raise BundleError(
                    f"{bundle.path}: golden row {row}: {name} is not finite: the network overflows or has weights that are not numbers"
                )
            size = max(1.0, float(np.max(np.abs(golden[name][row]))))
            error = float(np.max(np.abs(outputs[name] - golden[name][row]))) / size
            if not error <= GOLDEN_TOLERANCE:
                raise BundleError(
                    f"{bundle.path}: golden row {row}: {name} is off by {error:.3g}, more than {GOLDEN_TOLERANCE}; "
                    "the file was changed or this onnxruntime computes differently. Do not run it: export again"
                )
