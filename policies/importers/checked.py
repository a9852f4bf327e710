"""What every importer is held to, whatever its format: nothing given in vain, a contract that holds, a network that runs."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from isthmus.hardware.errors import IsthmusError

from ..bundle import target_output
from ..contract import Contract, ContractError
from ..contract_checks import check_contract
from ..onnx_graph import policy_model
from .common import Facts, Imported, Importer, ImportFailed
from .facts import check_facts, check_name, unasked, watched
from .imported_bundle import golden_rows, plausible_signals

TICKS = 16  # that a network is tried for
LARGEST_ACTION = 1e9  # in action units; more than any scale brings back to what a joint does


def checked(importer: Importer) -> Importer:
    """The importer, which refuses facts that it has no use for and policies that cannot run."""
    return replace(importer, load=partial(_load, importer))


def _load(importer: Importer, path: Path, facts: Facts) -> Imported:
    check_facts(facts)
    seen = watched(facts)
    imported = importer.load(path, seen)
    if idle := unasked(seen):
        why = f"{path.name} says it itself, or has none of it; leave it out"
        verb = "is" if len(idle) == 1 else "are"
        raise ImportFailed(f"{facts.source}: {', '.join(idle)} {verb} not used by {importer.name}: {why}")
    contract = imported.contract
    check_name(f"{path}: robot", contract.robot)
    _check_driven(contract, path)
    try:
        check_contract(contract)
    except ContractError as error:
        raise ImportFailed(f"{path}: {error}") from None
    _check_runs(imported, path)
    return imported


def _check_driven(contract: Contract, path: Path) -> None:
    """Refuse driven joints that could not move."""
    for joint in contract.joints:
        for key in ("velocity_limit", "effort_limit"):
            if joint.name in contract.action.joints and not getattr(joint, key) > 0.0:
                raise ImportFailed(
                    f"{path}: {key} of joint {joint.name!r} is {getattr(joint, key):g}, but the policy drives it; expected more than 0"
                )


def _check_runs(imported: Imported, path: Path) -> None:
    """Refuse a network that does not fit its contract, or whose actions are no numbers on signals such as a robot gives."""
    try:
        model = policy_model(imported.contract, imported.network, memory=imported.memory, reference=imported.reference)
        rows = golden_rows(model, imported.contract, plausible_signals(imported.contract, TICKS))
    except IsthmusError as error:
        raise ImportFailed(f"{path}: the network does not fit what is said of it: {error}") from None
    except Exception as error:  # onnxruntime raises its own classes, one per cause
        raise ImportFailed(f"{path}: the network cannot be run: {error}") from None
    largest = max(float(np.abs(rows[name]).max()) for name in ("base_action", target_output(imported.contract)))
    if not math.isfinite(largest) or largest > LARGEST_ACTION:
        raise ImportFailed(
            f"{path}: the network's outputs are not finite on plausible signals, or beyond +-{LARGEST_ACTION:g} (largest: {largest:g}): "
            "the training diverged, or the file is damaged; do not run it"
        )
