"""Units of the numbers that are told: of joints by their kind, of signals by the registry."""

from collections.abc import Mapping

from isthmus.hardware.robot import RobotSpec
from isthmus.hardware.signals import SIGNALS
from isthmus.policies.contract import Contract

JOINT_UNITS: Mapping[str, Mapping[str, str]] = {
    "hinge": {
        "default_pos": "rad", "lower": "rad", "upper": "rad", "velocity_limit": "rad/s", "effort_limit": "N m",
        "kp": "N m/rad", "kd": "N m s/rad",
    },
    "slide": {
        "default_pos": "m", "lower": "m", "upper": "m", "velocity_limit": "m/s", "effort_limit": "N", "kp": "N/m", "kd": "N s/m",
    },
}  # fmt: skip
_FIELD_OF = {
    "joint_vel": "velocity_limit",
    "joint_velocity_target": "velocity_limit",
    "joint_effort_target": "effort_limit",
}


def joint_unit(robot: RobotSpec, joint: str, field: str) -> str:
    """Unit of a field of robot.toml, such as "kp", of a joint of the robot."""
    return JOINT_UNITS[robot.joints[robot.joint_names.index(joint)].kind][field]


def signal_unit(contract: Contract, robot: RobotSpec, name: str, index: int) -> str:
    """Unit of one value of a signal, joints in the contract's order; "1" where it has none or nobody says."""
    known = next((spec for spec in SIGNALS if spec.name == name), None)
    joint = contract.joint_names[index] if index < len(contract.joint_names) else ""
    if known is not None and known.width == "joints" and joint in robot.joint_names:
        return joint_unit(robot, joint, _FIELD_OF.get(name, "default_pos"))
    own = next((signal.unit for signal in contract.own_signals if signal.name == name), "1")
    units = (own if known is None else known.unit).split(", ")
    return units[min(index, len(units) - 1)]
