"""Rotations and exchanged axes, in words."""

import numpy as np


def turn_words(turn: np.ndarray) -> str:
    """A rotation in words: angle and axis."""
    angle = np.degrees(np.arccos(np.clip((np.trace(turn) - 1.0) / 2.0, -1.0, 1.0)))
    if angle > 179.0:
        axis = np.linalg.eigh(turn + turn.T)[1][:, -1]
    else:
        axis = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    axis = axis / np.linalg.norm(axis)
    main = int(np.argmax(np.abs(axis)))
    words = "xyz"[main] if abs(axis[main]) > 0.99 else np.array2string(axis, precision=2)
    return f"{angle:.0f} degrees about {words}"


def axes_words(turn: np.ndarray) -> str:
    """Exchanged axes in words."""
    if np.allclose(turn, -np.eye(3)):
        return "its sign is turned round (all three axes)"
    order, signs = np.abs(turn).argmax(1), turn.sum(1)
    if (order == np.arange(3)).all():
        flipped = [axis for axis, sign in zip("xyz", signs, strict=True) if sign < 0]
        return f"the sign of {' and '.join(flipped)} is turned round"
    source = [("-" if sign < 0 else "") + "xyz"[k] for k, sign in zip(order, signs, strict=True)]
    return f"its axes are exchanged: x, y, z should be its {', '.join(source)}"


def between(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The shortest rotation that takes one unit vector to another, (3, 3)."""
    axis, cosine = np.cross(start, end), float(start @ end)
    if cosine < -0.999:
        other = np.eye(3)[int(np.argmin(np.abs(start)))]
        axis = np.cross(start, other)
        axis = axis / np.linalg.norm(axis)
        return 2.0 * np.outer(axis, axis) - np.eye(3)
    cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    return np.eye(3) + cross + cross @ cross / (1.0 + cosine)
