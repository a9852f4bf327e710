"""Points that the tip can reach, and poses that reach them."""

import numpy as np

from .kinematics import KinematicChain, joint_frames, tip_jacobian, tip_position
from .robot import RobotSpec, Workspace


def inside(workspace: Workspace, chain: KinematicChain, points: np.ndarray) -> np.ndarray:
    """Which points (..., 3) m, base frame, lie in the workspace. Returns bool (...)."""
    offset = points - np.array([chain.links[0].pos[0], chain.links[0].pos[1], 0.0])
    azimuth = np.arctan2(offset[..., 1], offset[..., 0])
    radius = np.hypot(offset[..., 0], offset[..., 1])
    result = np.ones(points.shape[:-1], dtype=bool)
    for value, (low, high) in (
        (azimuth, workspace.azimuth),
        (radius, workspace.radius),
        (points[..., 2], workspace.height),
    ):
        result &= (value >= low) & (value <= high)
    return result


def sample_reachable(
    robot: RobotSpec, chain: KinematicChain, rng: np.random.Generator, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Random points of the robot's workspace with a pose that reaches each.

    Returns:
        joint_pos: (count, m) rad in the chain's order, within the limits less the workspace's joint_margin.
        points: (count, 3) m, base frame, spread over the workspace as random poses spread them.
    """
    workspace = robot.reach_workspace()
    lower, upper = _limits(chain, robot, workspace.joint_margin)
    poses, points = [], []
    found = 0
    while found < count:
        pose = rng.uniform(lower, upper, size=(8192, lower.size))
        _, origins, tip = joint_frames(chain, pose)
        lowest = np.min(np.stack([o[:, 2] for o in origins[2:]] + [tip[:, 2]], axis=-1), axis=-1)
        keep = inside(workspace, chain, tip) & (lowest > workspace.clearance)
        poses.append(pose[keep])
        points.append(tip[keep])
        found += int(keep.sum())
    return np.concatenate(poses)[:count], np.concatenate(points)[:count]


def reach(robot: RobotSpec, chain: KinematicChain, point: np.ndarray, *, tolerance: float = 1e-3) -> np.ndarray | None:
    """A pose (m,) rad that puts the tip on `point` (3,) m, by damped least squares from several starts; None if there is none.

    Damping as in Buss, "Introduction to Inverse Kinematics" (2004), section 6.
    """
    lower, upper = _limits(chain, robot, 0.0)
    rng = np.random.default_rng(0)
    pose = np.concatenate([((lower + upper) / 2)[None], rng.uniform(lower, upper, size=(31, lower.size))])
    for _ in range(200):
        error = point - tip_position(chain, pose)
        jacobian = tip_jacobian(chain, pose)
        square = jacobian @ np.swapaxes(jacobian, -1, -2) + 1e-4 * np.eye(3)
        step = (np.swapaxes(jacobian, -1, -2) @ np.linalg.solve(square, error[..., None]))[..., 0]
        pose = np.clip(pose + np.clip(step, -0.2, 0.2), lower, upper)
    miss = np.linalg.norm(point - tip_position(chain, pose), axis=-1)
    return pose[np.argmin(miss)] if miss.min() < tolerance else None


def _limits(chain: KinematicChain, robot: RobotSpec, margin: float) -> tuple[np.ndarray, np.ndarray]:
    index = [robot.joint_names.index(name) for name in chain.joint_names]
    return robot.array("lower")[index] + margin, robot.array("upper")[index] - margin
