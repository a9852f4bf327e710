"""Unit quaternions wxyz, batched in torch. `quat` turns body coordinates into world coordinates."""

import torch


def rotate(quat: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """Body -> world: R(quat) vector. quat (..., 4), vector (..., 3) -> (..., 3)."""
    twice = 2.0 * torch.linalg.cross(quat[..., 1:], vector)
    return vector + quat[..., :1] * twice + torch.linalg.cross(quat[..., 1:], twice)


def rotate_inverse(quat: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """World -> body: R(quat)^T vector. quat (..., 4), vector (..., 3) -> (..., 3)."""
    twice = 2.0 * torch.linalg.cross(quat[..., 1:], vector)
    return vector - quat[..., :1] * twice + torch.linalg.cross(quat[..., 1:], twice)


def world_z_in_body(quat: torch.Tensor) -> torch.Tensor:
    """The world's z axis in body coordinates: third row of R(quat). (..., 4) -> (..., 3)."""
    w, x, y, z = quat.unbind(-1)
    return torch.stack([2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)], dim=-1)


def heading(quat: torch.Tensor) -> torch.Tensor:
    """The body's x axis on the world's horizontal plane, a unit vector unless x is vertical. (..., 4) -> (..., 2)."""
    w, x, y, z = quat.unbind(-1)
    ahead = torch.stack([1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z)], dim=-1)
    return ahead / torch.linalg.vector_norm(ahead, dim=-1, keepdim=True).clamp_min(1e-6)


def rotation_matrix(quat: torch.Tensor) -> torch.Tensor:
    """R(quat), body -> world, row by row. (..., 4) -> (..., 9)."""
    w, x, y, z = quat.unbind(-1)
    rows = [
        1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y),
        2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x),
        2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, dim=-1)


def roll_pitch_yaw(quat: torch.Tensor) -> torch.Tensor:
    """Angles (z-y'-x'') about x, y and z whose turns make R(quat) = Rz Ry Rx, rad. (..., 4) -> (..., 3)."""
    w, x, y, z = quat.unbind(-1)
    roll = torch.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = torch.asin((2.0 * (w * y - z * x)).clamp(-1.0, 1.0))
    yaw = torch.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    return torch.stack([roll, pitch, yaw], dim=-1)


def multiply(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Hamilton product: first `right`, then `left`. (..., 4) each."""
    w1, x1, y1, z1 = left.unbind(-1)
    w2, x2, y2, z2 = right.unbind(-1)
    parts = [
        w1 * w2 - x1 * x2 - y1 * y2 - z1 * z2,
        w1 * x2 + x1 * w2 + y1 * z2 - z1 * y2,
        w1 * y2 - x1 * z2 + y1 * w2 + z1 * x2,
        w1 * z2 + x1 * y2 - y1 * x2 + z1 * w2,
    ]
    return torch.stack(parts, dim=-1)


def from_yaw(yaw: torch.Tensor) -> torch.Tensor:
    """Turn about z by yaw (...,) rad. Returns (..., 4)."""
    zero = torch.zeros_like(yaw)
    return torch.stack([torch.cos(yaw / 2.0), zero, zero, torch.sin(yaw / 2.0)], dim=-1)


def from_rotation_vector(vector: torch.Tensor) -> torch.Tensor:
    """Turn by |vector| rad about its direction. (..., 3) -> (..., 4)."""
    angle = torch.linalg.vector_norm(vector, dim=-1, keepdim=True)
    scale = torch.where(angle > 1e-6, torch.sin(angle / 2.0) / angle.clamp_min(1e-9), torch.full_like(angle, 0.5))
    return torch.cat([torch.cos(angle / 2.0), scale * vector], dim=-1)


def angle_between(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Angle of the turn from one attitude to another, (...,) rad in [0, pi]."""
    dot = (left * right).sum(-1).abs().clamp(max=1.0)
    return 2.0 * torch.arccos(dot)
