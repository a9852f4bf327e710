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

from .contract import Contract, ContractError
from .contract_checks import check_contract
from .manifest import SCHEMA, Manifest
from .migration import migrated_manifest
from .policy import PolicyOutput

MANIFEST_KEY, GOLDEN_KEY, DIGEST_KEY = "isthmus.manifest", "isthmus.golden", "isthmus.sha256"
_NO_DIGEST = "0" * 64
_DIGEST = re.compile(re.escape(DIGEST_KEY.encode()) + rb".{1,4}?([0-9a-f]{64})", re.DOTALL)
PART_OUTPUTS = ("observation", "base_action", "residual_action", "gate_prob", "gate")
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

    def policy(self) -> "BundlePolicy":
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
    if not path.is_file():
        raise BundleError(f"{path}: no such bundle; `isthmus export` makes one from a training run")
    data = path.read_bytes()
    if _DIGEST.search(data) is not None:  # before anything is parsed
        _check_digest(data, path)
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


def target_output(contract: Contract) -> str:
    """The graph's output that is to be executed."""
    return f"{contract.action.target}_next"


class BundlePolicy:
    """Policy that runs a bundle; one thread, inputs preallocated."""

    def __init__(self, bundle: Bundle) -> None:
        self.contract = bundle.manifest.contract
        self.policy_id = bundle.sha256
        self.joint_names = self.contract.joint_names
        self.num_actions = len(self.contract.action.joints)
        self.period_ns = self.contract.period_ns
        self._session = bundle.session
        self._signals = _signal_widths(self.contract)
        self._target = target_output(self.contract)
        self._states = tuple(state.name for state in bundle.manifest.states)
        widths = {**self._signals, **{f"state.{s.name}": s.width for s in bundle.manifest.states}}
        self._feeds = {name: np.zeros((1, width), dtype=np.float32) for name, width in widths.items()}
        self._outputs = [self._target, *PART_OUTPUTS, *(f"next.{name}" for name in self._states)]

    def reset(self) -> None:
        """See Policy."""
        for name in self._states:
            self._feeds[f"state.{name}"][:] = 0.0

    def act(self, signals: Mapping[str, np.ndarray]) -> PolicyOutput:
        """See Policy."""
        results = self.run(signals)
        return PolicyOutput(
            joint_target=results[self._target].astype(np.float64),
            base_action=results["base_action"].astype(np.float64),
            residual_action=results["residual_action"].astype(np.float64),
            gate_prob=float(results["gate_prob"][0]),
            gate=float(results["gate"][0]),
        )

    def run(self, signals: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """One step of the graph. Returns every output by name, shape (width,), float32; the state moves on."""
        for name in self._signals:
            self._feeds[name][0] = signals[name]
        values = self._session.run(self._outputs, self._feeds)
        for name, value in zip(self._states, values[1 + len(PART_OUTPUTS) :], strict=True):
            self._feeds[f"state.{name}"][:] = np.asarray(value)
        return {name: np.asarray(value)[0] for name, value in zip(self._outputs, values, strict=True)}


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
    with np.load(io.BytesIO(base64.b64decode(text, validate=True)), allow_pickle=False) as archive:
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
    missing = wanted - {tensor.name for tensor in bundle.session.get_outputs()}
    if missing:
        raise BundleError(f"{bundle.path}: the graph lacks outputs {sorted(missing)}")


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
            size = max(1.0, float(np.max(np.abs(golden[name][row]))))
            error = float(np.max(np.abs(outputs[name] - golden[name][row]))) / size
            if not error <= GOLDEN_TOLERANCE:
                raise BundleError(
                    f"{bundle.path}: golden row {row}: {name} is off by {error:.3g}, more than {GOLDEN_TOLERANCE}; "
                    "the file was changed or this onnxruntime computes differently. Do not run it: export again"
                )
