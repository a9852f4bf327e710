"""Base bundle + learned residual -> one new bundle, with golden rows of its own."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import torch

from ..bundle import Bundle
from ..bundle_writer import write_bundle
from ..compose import compose
from ..manifest import Provenance, ResidualInfo, StateSpec
from .corrections import LearnedResidual
from .graph import ContractGraph


def export_composed_bundle(path: Path, base: Bundle, learned: LearnedResidual, provenance: Provenance) -> Bundle:
    """Write base + residual + gate as one bundle and load it again, golden rows replayed.

    Args:
        path: the .onnx file to write.
        base: what `learned` was learned on.
        learned: from `learn_residual`.
        provenance: goes into the manifest.

    Raises:
        ComposeError: the two do not fit.
        BundleError: the written file does not compute what torch does.
    """
    contract = base.manifest.contract
    model = compose(onnx.load(str(base.path)), learned.export(), contract, bound=learned.alpha)
    manifest = replace(
        base.manifest,
        states=(*base.manifest.states, StateSpec(name="gate", width=1)),
        residual=ResidualInfo(
            base_sha256=base.sha256,
            alpha=learned.alpha,
            gate_on=learned.module.on,
            gate_off=learned.module.off,
            episodes=learned.corrected_episodes,
        ),
        provenance=provenance,
    )
    return write_bundle(path, model, manifest, composed_golden_rows(base, learned))


@torch.no_grad()
def composed_golden_rows(base: Bundle, learned: LearnedResidual) -> dict[str, np.ndarray]:
    """The base's golden signals and base actions, with the targets that torch gives for base + residual + gate."""
    graph = ContractGraph(base.manifest.contract)
    names = base.manifest.contract.signals
    golden = {
        name: torch.from_numpy(np.asarray(base.golden[name], dtype=np.float32)) for name in (*names, "base_action")
    }
    state = {name: torch.zeros(1, width) for name, width in graph.state_widths.items()}
    gate = torch.zeros(1, 1)
    rows: dict[str, list[torch.Tensor]] = {"joint_target_next": [], "residual_action": [], "gate": []}
    for row in range(len(golden["base_action"])):
        now = {name: values[row : row + 1] for name, values in golden.items()}
        observation, seen = graph.observe(now, state)
        residual, _, gate = learned.module(observation, now["base_action"], gate)
        action = now["base_action"].clamp(-1.0, 1.0) + gate * residual
        rows["joint_target_next"].append(graph.act(action, now, seen)[0])
        _, state = graph.act(now["base_action"], now, seen)  # of the base, which knows nothing of a residual
        rows["residual_action"].append(residual)
        rows["gate"].append(gate)
    return {name: values.numpy() for name, values in golden.items()} | {
        name: torch.cat(values).numpy() for name, values in rows.items()
    }
