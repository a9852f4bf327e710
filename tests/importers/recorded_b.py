"""Recorded policies of holosoma, unitree_rl_gym, kinfer, efferent, rl_sar, motrix-deploy and bare networks."""

import numpy as np
from parity import DATA, Recorded, by_name

from isthmus.policies.importers.common import AnchorJoint, CommandFacts, Facts, JointFacts

LIMITS = JointFacts(lower=-3.5, upper=3.5, velocity_limit=20.0, effort_limit=40.0)
GAINS = JointFacts(kp=20.0, kd=0.5)
COMMON = {"robot": "made_up", "task": "walk", "latency_s": (0.0, 0.02)}
VELOCITY = CommandFacts(low=(-1.0, -0.5, -1.0), high=(1.0, 0.5, 1.0))
MOTORS = tuple(f"{side}_{part}" for side in ("left", "right") for part in ("ankle", "knee", "hip_pitch", "hip_yaw"))
LEGS = tuple(f"{side}_{part}" for side in ("left", "right") for part in ("hip_yaw", "hip_pitch", "knee", "ankle"))

Rows = dict[str, np.ndarray]


def signals_of(rows: Rows, names: tuple[str, ...]) -> Rows:
    """The recorded rows of this group are named as our signals are."""
    made = ("joint_names", "observation", "action", "target")
    joints = {key: by_name(rows[key], rows["joint_names"], names) for key in ("joint_pos", "joint_vel")}
    return {**{key: value for key, value in rows.items() if key not in made}, **joints}


def recorded(importer: str, path: str, rows: str, defaults: JointFacts, **facts: object) -> Recorded:
    return Recorded(
        importer=importer,
        path=DATA / path,
        facts=Facts(**{**COMMON, "defaults": defaults, **facts}),
        rows=DATA / rows,
        signals=signals_of,
        target=lambda rows, names: by_name(rows["target"], rows["joint_names"], names),
    )


def joined(*parts: JointFacts) -> JointFacts:
    return JointFacts(**{key: value for part in parts for key, value in vars(part).items() if value is not None})


def without(facts: JointFacts, *keys: str) -> JointFacts:
    return JointFacts(**{key: value for key, value in vars(facts).items() if key not in keys})


GYM = {"command": VELOCITY}
RECORDED = (
    recorded("holosoma", "holosoma/walk/policy.onnx", "holosoma/walk/rows.npz", JointFacts()),
    recorded("holosoma", "holosoma/history/policy.onnx", "holosoma/history/rows.npz", LIMITS),
    recorded(
        "holosoma",
        "holosoma/motion/policy.onnx",
        "holosoma/motion/rows.npz",
        LIMITS,
        anchor=(AnchorJoint(joint="waist_yaw", axis="z"), AnchorJoint(joint="waist_roll", axis="x")),
    ),
    recorded(
        "unitree_rl_gym",
        "unitree_rl_gym/real.yaml",
        "unitree_rl_gym/real.npz",
        LIMITS,
        sdk_joints=(*MOTORS, "waist_yaw", "left_arm", "right_arm"),
        **GYM,
    ),
    recorded("unitree_rl_gym", "unitree_rl_gym/mujoco.yaml", "unitree_rl_gym/mujoco.npz", LIMITS, joints=LEGS, **GYM),
    recorded(
        "kinfer",
        "kinfer/walk.kinfer",
        "kinfer/rows.npz",
        joined(LIMITS, GAINS, JointFacts(default_pos=0.0)),
        period_s=0.02,
        command=CommandFacts(low=(-1.0,) * 4, high=(1.0,) * 4),
    ),
    recorded(
        "efferent", "efferent/walk.app", "efferent/walk.npz", joined(LIMITS, JointFacts(lower=-1.0, upper=1.0)), **GYM
    ),
    recorded(
        "efferent",
        "efferent/gru.onnx",
        "efferent/gru.npz",
        joined(LIMITS, GAINS, JointFacts(lower=-1.0, upper=1.0)),
        command=CommandFacts(low=(0.2, -0.3), high=(0.8, 0.3)),
    ),
    recorded("rl_sar", "rl_sar/walk", "rl_sar/walk/rows.npz", without(LIMITS, "effort_limit"), command=VELOCITY),
    recorded(
        "rl_sar", "rl_sar/trot/config.yaml", "rl_sar/trot/rows.npz", without(LIMITS, "effort_limit"), command=VELOCITY
    ),
    recorded("motrix", "motrix/walk.deploy", "motrix/walk.npz", JointFacts(velocity_limit=20.0)),
    recorded(
        "bare",
        "bare/walk.toml",
        "bare/walk.npz",
        LIMITS,
        period_s=0.025,
        joint={
            name: JointFacts(default_pos=rest, kp=20.0, kd=0.5)
            for name, rest in (("hip", 0.2), ("knee", -0.5), ("ankle", 0.3))
        },
    ),
)
