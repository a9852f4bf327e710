"""Where the tip may be sent: a region around the base, and poses that reach into it."""

from dataclasses import dataclass

import numpy as np

from .kinematics import KinematicChain, joint_frames, tip_jacobian, tip_position
from .robot import RobotSpec


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A cylindrical shell sector around the first joint's axis, in the base frame."""

    azimuth: tuple[float, float]  # rad, about the axis of the first joint
    radius: tuple[float, float]  # m, horizontal distance from that axis
    height: tuple[float, float]  # m above the base plane
    joint_margin: float  # rad kept from the joint limits
    clearance: float  # m, height that every joint and the tip keep above the base plane

    def contains(self, chain: KinematicChain, points: np.ndarray) -> np.ndarray:
        """Which points (..., 3) lie in the region. Returns bool (...)."""
        offset = points - np.array([chain.links[0].pos[0], chain.links[0].pos[1], 0.0])
        azimuth = np.arctan2(offset[..., 1], offset[..., 0])
        radius = np.hypot(offset[..., 0], offset[..., 1])
        inside = np.ones(points.shape[:-1], dtype=bool)
        for value, (low, high) in ((azimuth, self.azimuth), (radius, self.radius), (points[..., 2], self.height)):
            inside &= (value >= low) & (value <= high)
        return inside

    def sample(
        self, chain: KinematicChain, robot: RobotSpec, rng: np.random.Generator, count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Random reachable tip points with a pose that reaches each.

        Returns:
            joint_pos: (count, m) rad in the chain's order, within the limits less `joint_margin`.
            points: (count, 3) m, spread evenly over the region as far as random poses allow.
        """
        lower, upper = _chain_limits(chain, robot, self.joint_margin)
        poses, points = [], []
        found = 0
        while found < count:
            pose = rng.uniform(lower, upper, size=(8192, lower.size))
            _, origins, tip = joint_frames(chain, pose)
            lowest = np.min(np.stack([o[:, 2] for o in origins[2:]] + [tip[:, 2]], axis=-1), axis=-1)
            keep = self.contains(chain, tip) & (lowest > self.clearance)
            poses.append(pose[keep])
            points.append(tip[keep])
            found += int(keep.sum())
        return np.concatenate(poses)[:count], np.concatenate(points)[:count]


def reach(chain: KinematicChain, robot: RobotSpec, point: np.ndarray, *, tolerance: float = 1e-3) -> np.ndarray | None:
    """A pose that puts the tip on `point` (3,) m, by damped least squares from several starts; None if there is none.

    Damping and restarts as in Buss, "Introduction to Inverse Kinematics" (2004), section 6.
    """
    lower, upper = _chain_limits(chain, robot, 0.0)
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


def _chain_limits(chain: KinematicChain, robot: RobotSpec, margin: float) -> tuple[np.ndarray, np.ndarray]:
    index = [robot.joint_names.index(name) for name in chain.joint_names]
    return robot.array("lower")[index] + margin, robot.array("upper")[index] - margin
