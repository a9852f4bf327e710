"""A picture of the arm in a pose, as PNG. Its own process, so that drawing never delays a servo.

python -m isthmus.hardware.virtual.picture out.png --joint-pos 0 0 0 0 0 0 [--target 0.2 0 0.1]
"""

# pyright: reportAttributeAccessIssue=false
# MuJoCo's compiled modules carry no type information.

import argparse
import struct
import sys
import zlib
from pathlib import Path

import mujoco
import numpy as np

from isthmus.hardware.robot import load_robot

TARGET_RADIUS_M = 0.01


def draw(joint_pos: np.ndarray, target: np.ndarray | None, *, width: int, height: int) -> np.ndarray:
    """Render the arm, seen by the camera `overview`.

    Args:
        joint_pos: shape (6,), rad.
        target: shape (3,), m, base frame, drawn as a ball; None: no ball.
        width: pixels.
        height: pixels.

    Returns:
        shape (height, width, 3), uint8.
    """
    spec = load_robot("so101")
    model = mujoco.MjModel.from_xml_path(str(spec.model_path))
    model.vis.global_.offwidth, model.vis.global_.offheight = width, height
    data = mujoco.MjData(model)
    for name, angle in zip(spec.joint_names, joint_pos, strict=True):
        data.joint(name).qpos[0] = angle
    mujoco.mj_forward(model, data)
    with mujoco.Renderer(model, height, width) as renderer:
        renderer.update_scene(data, "overview")
        if target is not None:
            _add_ball(renderer.scene, target)
        return renderer.render()


def _add_ball(scene: mujoco.MjvScene, pos: np.ndarray) -> None:
    size, rotation, colour = (
        np.full(3, TARGET_RADIUS_M),
        np.eye(3).ravel(),
        np.array([0.1, 0.7, 0.2, 0.8], dtype=np.float32),
    )
    mujoco.mjv_initGeom(scene.geoms[scene.ngeom], mujoco.mjtGeom.mjGEOM_SPHERE, size, pos, rotation, colour)
    scene.ngeom += 1


def png(image: np.ndarray) -> bytes:
    """Encode an image, shape (height, width, 3), uint8, as PNG (ISO/IEC 15948, filter 0)."""
    height, width, _ = image.shape
    rows = np.zeros((height, 1 + 3 * width), dtype=np.uint8)
    rows[:, 1:] = image.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def main() -> int:
    """Draw what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="isthmus.hardware.virtual.picture", description="A picture of the SO-101 in a pose."
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("--joint-pos", type=float, nargs=6, required=True, help="rad")
    parser.add_argument("--target", type=float, nargs=3, help="m, base frame")
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--height", type=int, default=480)
    arguments = parser.parse_args()
    target = None if arguments.target is None else np.array(arguments.target)
    image = draw(np.array(arguments.joint_pos), target, width=arguments.width, height=arguments.height)
    arguments.path.write_bytes(png(image))
    return 0


if __name__ == "__main__":
    sys.exit(main())
