"""Corrected episodes as training rows: what the base saw and proposed, and what should have been added to it.

The base is replayed over the recorded signals, so targets are always relative to that base, whatever ran on the robot.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime as ort

from isthmus.hardware.errors import IsthmusError

from ..contract import Contract
from ..episode import Episode
from .dataset import Phase, intervention_phase

MAX_REPLAY_DIFFERENCE = 1e-3  # action units; recorded and replayed base action of the same base agree far better


class CorrectionError(IsthmusError, ValueError):
    """Episodes and base do not fit together, or there is too little to learn from."""


@dataclass(frozen=True, kw_only=True)
class CorrectionRows:
    """Ticks of successful episodes, r rows."""

    observation: np.ndarray  # (r, d) float32, the base graph's
    base_action: np.ndarray  # (r, a) float32, the base network's output, unclipped
    target: np.ndarray  # (r, a) float32, residual in action units; meaningful where `correcting`
    correcting: np.ndarray  # (r,) bool, a person drove
    autonomous: np.ndarray  # (r,) bool, the base alone drove, and no person took over soon after
    assisted: np.ndarray  # (r,) bool, likewise, with a residual's gate open
    episode: np.ndarray  # (r,) int, index into the episodes given


class BaseReplay:
    """Runs a base graph over recorded ticks."""

    def __init__(self, base_path: Path, contract: Contract) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self.session = ort.InferenceSession(base_path, options, providers=["CPUExecutionProvider"])
        self.contract = contract
        inputs = {value.name: value.shape for value in self.session.get_inputs()}
        self._states = {name: shape for name, shape in inputs.items() if name.startswith("state.")}
        self._signals = [name for name in inputs if name not in self._states]
        if "state.gate" in self._states:
            raise CorrectionError(
                f"{base_path} is composed already; learn from the plain base, so that targets stay relative to it"
            )
        names = [value.name for value in self.session.get_outputs()]
        self._outputs = [
            "observation",
            "base_action",
            *(f"next.{name.removeprefix('state.')}" for name in self._states),
        ]
        absent = [name for name in self._outputs if name not in names]
        if absent:
            raise CorrectionError(f"{base_path} has no outputs {absent}; it has {names}")

    def run(self, episode: Episode, joint_shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Replay an episode whose joints, measured and commanded, all lie `joint_shift` (n,) rad further, in contract order.

        Returns:
            observation (T, d) and base action (T, a), float32.
        """
        order = [episode.joint_names.index(name) for name in self.contract.joint_names]
        ticks = episode.ticks
        signals = {
            "joint_pos": ticks["joint_pos"][:, order] + joint_shift,
            "joint_vel": ticks["joint_vel"][:, order],
            "joint_target": ticks["joint_target"][:, order] + joint_shift,
            self.contract.need_command().signal: ticks["target"],
        }
        rows = {name: signals[name].astype(np.float32)[:, None, :] for name in self._signals}
        state = {name: np.zeros(shape, dtype=np.float32) for name, shape in self._states.items()}
        observation, base_action = [], []
        for tick in range(len(ticks)):
            inputs = {name: values[tick] for name, values in rows.items()} | state
            outputs = self.session.run(self._outputs, inputs)
            observation.append(np.asarray(outputs[0])[0])
            base_action.append(np.asarray(outputs[1])[0])
            state = dict(zip(self._states, outputs[2:], strict=True))
        return np.stack(observation), np.stack(base_action)


def correction_rows(
    base_path: Path,
    contract: Contract,
    episodes: Sequence[Episode],
    *,
    shifted_replays: int,
    shift_std: float,
    lead_in_s: float,
    seed: int,
) -> CorrectionRows:
    """Rows of the successful episodes.

    While a person drives, the target is (executed increment / scale) - clip(base action), with the base's proposal from replay.
    A hold alone would teach "add what cancels the base", and so to freeze wherever the gate opens. Therefore each episode is replayed
    again with all its joints shifted a little and the targets kept: near the pose that the person held, the residual stays what
    it is there, and the base's own feedback leads back to that pose.

    Args:
        base_path: ONNX file of the base.
        contract: the base's.
        episodes: corrected and uncorrected ones; those without success are left out.
        shifted_replays: further replays per episode.
        shift_std: rad, of the shift of each driven joint, constant over a replay.
        lead_in_s: ticks so shortly before a takeover count neither as autonomous nor as correcting.
        seed: of the shifts.

    Raises:
        CorrectionError: another robot or period, another base than the recorded one, or no successful episode.
    """
    replay, rng = BaseReplay(base_path, contract), np.random.default_rng(seed)
    driven = np.array([joint.name in contract.action.joints for joint in contract.joints])
    blocks: list[tuple[np.ndarray, ...]] = []
    for index, episode in enumerate(episodes):
        _check_episode(episode, index, contract)
        if not episode.success:
            continue
        observation, base_action = replay.run(episode, np.zeros(len(driven)))
        _check_base(episode, index, base_action, base_path)
        target = human_action(episode, contract) - np.clip(base_action, -1.0, 1.0)
        labels = (target.astype(np.float32), *_labels(episode, lead_in_s), np.full(len(target), index))
        blocks.append((observation, base_action, *labels))
        for _ in range(shifted_replays):
            shift = np.where(driven, rng.normal(0.0, shift_std, len(driven)), 0.0)
            blocks.append((*replay.run(episode, shift), *labels))
    if not blocks:
        raise CorrectionError(
            f"none of {len(episodes)} episodes ended in success; only successful corrections are learned from"
        )
    columns = [np.concatenate(column) for column in zip(*blocks, strict=True)]
    names = ("observation", "base_action", "target", "correcting", "autonomous", "assisted", "episode")
    return CorrectionRows(**dict(zip(names, columns, strict=True)))


def human_action(episode: Episode, contract: Contract) -> np.ndarray:
    """Executed increment of the driven joints in action units, within +-1, shape (T, a)."""
    order = [episode.joint_names.index(name) for name in contract.action.joints]
    increment = episode.ticks["executed_target"][:, order] - episode.ticks["joint_target"][:, order]
    return np.clip(increment / np.asarray(contract.action.scale), -1.0, 1.0)


def _labels(episode: Episode, lead_in_s: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correcting, autonomous and assisted ticks, see CorrectionRows."""
    phase = intervention_phase(episode.ticks)
    touched = phase != Phase.AUTONOMOUS
    lead_in = round(lead_in_s * 1e9 / episode.period_ns)
    near = np.convolve(touched, np.ones(lead_in + 1), mode="full")[lead_in:] > 0  # now or within the next lead_in ticks
    gate_open = episode.ticks["gate"] > 0.5
    return phase == Phase.CORRECTING, ~near & ~gate_open, ~near & gate_open


def _check_episode(episode: Episode, index: int, contract: Contract) -> None:
    if episode.robot != contract.robot or set(episode.joint_names) != set(contract.joint_names):
        raise CorrectionError(
            f"episode {index} is of robot {episode.robot!r} with joints {list(episode.joint_names)}, the base is for "
            f"{contract.robot!r} with joints {list(contract.joint_names)}"
        )
    if episode.period_ns != contract.period_ns:
        raise CorrectionError(
            f"episode {index} has a period of {episode.period_ns} ns, the base {contract.period_ns} ns"
        )


def _check_base(episode: Episode, index: int, replayed: np.ndarray, base_path: Path) -> None:
    recorded = episode.ticks["base_action"]
    if recorded.shape != replayed.shape:
        raise CorrectionError(
            f"episode {index} recorded {recorded.shape[1]} actions, {base_path} gives {replayed.shape[1]}"
        )
    difference = np.abs(np.clip(recorded, -1.0, 1.0) - np.clip(replayed, -1.0, 1.0)).max(axis=1)
    ran = np.isfinite(difference)
    # The median, because histories may have started before the episode did.
    if ran.any() and np.median(difference[ran]) > MAX_REPLAY_DIFFERENCE:
        raise CorrectionError(
            f"episode {index}: the recorded base action differs from that of {base_path} by {np.median(difference[ran]):.3g}; "
            "learn with the base that the corrected policy was made from"
        )
