"""The start of each episode against the poses, speeds and tilts from which the policy was trained to start."""

import numpy as np

from isthmus.hardware.robot import RobotSpec
from isthmus.policies.bundle import Bundle

from .findings import Finding, fault
from .signal_log import SignalLog
from .units import signal_unit


def start(bundle: Bundle, robot: RobotSpec, log: SignalLog) -> list[Finding]:
    """Findings about where episodes began."""
    envelope, contract = bundle.manifest.envelope, bundle.manifest.contract
    if envelope is None:
        return []
    found: list[Finding] = []
    first = log.begin
    names = log.metadata.joint_names
    if "joint_pos" in log.signals and contract.joints:
        order = [names.index(name) for name in contract.joint_names]
        pos = log.signals["joint_pos"][first][:, order]
        low, high = np.array(envelope.joint_pos_low), np.array(envelope.joint_pos_high)
        room = 0.15 + 0.25 * (high - low)
        beyond = np.nan_to_num(np.maximum(low - room - pos, pos - high - room))  # lost readings are told elsewhere
        if beyond.max(initial=0.0) > 0:
            worst, at = np.unravel_index(int(np.argmax(beyond)), beyond.shape)
            unit = signal_unit(contract, robot, "joint_pos", int(at))
            found.append(
                fault(
                    "stream",
                    "start envelope",
                    f"an episode begins with {contract.joint_names[at]} outside of where training began",
                    "bring the robot to its start pose before the policy takes over",
                    numbers={
                        f"farthest start [{unit}]": float(pos[worst, at]),
                        f"lowest trained [{unit}]": low[at],
                        f"highest trained [{unit}]": high[at],
                    },
                    weight=4.0,
                )
            )
    if envelope.tilt is not None and "gravity" in log.signals:
        down = log.signals["gravity"][first]
        tilt = float(np.arccos(np.clip(-down[:, 2] / np.maximum(np.linalg.norm(down, axis=-1), 1e-9), -1, 1)).max())
        if tilt > envelope.tilt + 0.2:
            found.append(
                fault(
                    "stream",
                    "start envelope",
                    "an episode begins tilted further than any in training",
                    "put the robot upright first",
                    numbers={"tilt [rad]": tilt, "trained tilt [rad]": envelope.tilt},
                    weight=4.0,
                )
            )
    return found
