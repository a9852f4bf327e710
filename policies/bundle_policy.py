"""Runs a bundle's graph tick by tick: inputs, outputs and states stay where they are in memory."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime as ort

from .contract import Contract
from .policy import PolicyOutput

if TYPE_CHECKING:
    from .bundle import Bundle

PART_OUTPUTS = ("observation", "base_action", "residual_action", "gate_prob", "gate")


def target_output(contract: Contract) -> str:
    """The graph's output that is to be executed."""
    return f"{contract.action.target}_next"


class BundlePolicy:
    """Policy that runs a bundle, in one thread.

    Whoever has signals at hand may write them into `inputs` and call with those: then nothing is copied.
    States are kept twice: in one tick the graph reads the one and writes the other, in the next the other way round.
    """

    def __init__(self, bundle: "Bundle") -> None:
        self.contract = contract = bundle.manifest.contract
        self.policy_id = bundle.sha256
        self.joint_names = contract.joint_names
        self.num_actions = len(contract.action.joints)
        self.period_ns = contract.period_ns
        self._session = bundle.session
        self._target = target_output(contract)
        self._signals = {name: _row(contract.signal_width(name)) for name in contract.signals}
        self._states = [{s.name: _row(s.width) for s in bundle.manifest.states} for _ in range(2)]
        widths = {output.name: output.shape[1] for output in bundle.session.get_outputs()}
        further = [name for name in widths if name.startswith("part.")]
        self._outputs = {name: _row(widths[name]) for name in (self._target, *PART_OUTPUTS, *further)}
        self.inputs = {name: row[0] for name, row in self._signals.items()}  # views, (width,) each
        self.outputs = {name: row[0] for name, row in self._outputs.items() if name != "observation"}
        self._target_row, _, self._base, self._residual, self._gate_prob, self._gate = (
            self._outputs[name][0] for name in (self._target, *PART_OUTPUTS)
        )
        # What a tick needs: a policy without a residual leaves its parts at 0, and nobody looks at the observation.
        parts = ("base_action", *(PART_OUTPUTS[2:] if bundle.manifest.residual else ()))
        self._bindings = self._both_ways((self._target, *parts, *further))
        self._all_bindings: list[ort.IOBinding] = []  # made when first asked for
        self._turn = 0

    def reset(self) -> None:
        """See Policy."""
        for values in self._states[self._turn].values():
            values[:] = 0.0

    def act(self, signals: Mapping[str, np.ndarray]) -> PolicyOutput:
        """See Policy."""
        return PolicyOutput(
            joint_target=self.step(signals).astype(np.float64),
            base_action=self._base.astype(np.float64),
            residual_action=self._residual.astype(np.float64),
            gate_prob=float(self._gate_prob[0]),
            gate=float(self._gate[0]),
        )

    def step(self, signals: Mapping[str, np.ndarray]) -> np.ndarray:
        """The targets alone, (n,) float32, which the next call overwrites."""
        self._advance(self._bindings, signals)
        return self._target_row

    def run(self, signals: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """One step of the graph. Returns every output by name, shape (width,), float32; the state moves on."""
        self._all_bindings = self._all_bindings or self._both_ways(tuple(self._outputs))
        self._advance(self._all_bindings, signals)
        following = {f"next.{name}": values for name, values in self._states[self._turn].items()}
        return {name: values[0].copy() for name, values in (self._outputs | following).items()}

    def _advance(self, bindings: list[ort.IOBinding], signals: Mapping[str, np.ndarray]) -> None:
        if signals is not self.inputs:
            for name, row in self.inputs.items():
                row[:] = signals[name]
        self._session.run_with_iobinding(bindings[self._turn])
        self._turn = 1 - self._turn

    def _both_ways(self, outputs: tuple[str, ...]) -> list[ort.IOBinding]:
        return [self._binding(outputs, *states) for states in (self._states, self._states[::-1])]

    def _binding(
        self, outputs: tuple[str, ...], before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]
    ) -> ort.IOBinding:
        """The graph's tensors to our arrays, which it reads and writes in place."""
        binding = self._session.io_binding()
        given = self._signals | {f"state.{name}": values for name, values in before.items()}
        gives = {name: self._outputs[name] for name in outputs}
        gives |= {f"next.{name}": values for name, values in after.items()}
        for bind, arrays in ((binding.bind_input, given), (binding.bind_output, gives)):
            for name, array in arrays.items():
                bind(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
        return binding


def _row(width: int) -> np.ndarray:
    return np.zeros((1, width), dtype=np.float32)
