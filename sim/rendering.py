"""Pictures without a screen: an OpenGL context from EGL, else OSMesa, whatever MuJoCo chose when it was imported."""

# mujoco builds its classes at run time and ships no type stubs for them.
# pyright: reportAttributeAccessIssue=false

import importlib
import os

import mujoco
import numpy as np

from isthmus.hardware.errors import IsthmusError


class RenderingError(IsthmusError, RuntimeError):
    """No picture can be drawn on this machine."""


class OffscreenRenderer:
    """Draws one model at one size."""

    def __init__(self, model: mujoco.MjModel, *, width: int, height: int) -> None:
        """Raises RenderingError, saying what to install."""
        if width > model.vis.global_.offwidth or height > model.vis.global_.offheight:
            limit = f"{model.vis.global_.offwidth} x {model.vis.global_.offheight}"
            raise RenderingError(f"picture of {width} x {height} pixels; expected at most {limit}")
        self._model, self.size = model, (width, height)
        self._gl = _context(width, height)
        self._gl.make_current()
        self._scene = mujoco.MjvScene(model, maxgeom=10_000)
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)

    def draw(self, data: mujoco.MjData, camera: mujoco.MjvCamera) -> np.ndarray:
        """Picture (height, width, 3) uint8 of a state on which mj_forward has run."""
        self._gl.make_current()
        option, width, height = mujoco.MjvOption(), *self.size
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(self._model, data, option, None, camera, everything, self._scene)
        view, picture = mujoco.MjrRect(0, 0, width, height), np.empty((height, width, 3), dtype=np.uint8)
        mujoco.mjr_render(view, self._scene, self._context)
        mujoco.mjr_readPixels(picture, None, view, self._context)
        return np.flipud(picture)


def named_camera(model: mujoco.MjModel, name: str) -> mujoco.MjvCamera:
    """A camera of the model; raises KeyError naming those it has."""
    index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, name)
    if index < 0:
        known = [model.camera(i).name for i in range(model.ncam)]
        raise KeyError(f"unknown camera {name!r}; known: {', '.join(known) or 'none'}")
    camera = mujoco.MjvCamera()
    camera.type, camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, index
    return camera


def chase_camera(point: np.ndarray, distance: float) -> mujoco.MjvCamera:
    """A camera that looks at `point` (3,) m from the side, `distance` m away."""
    camera = mujoco.MjvCamera()
    camera.lookat[:] = point
    camera.distance, camera.azimuth, camera.elevation = distance, 120.0, -20.0
    return camera


def _context(width: int, height: int):  # noqa: ANN202  (a class of whichever backend works)
    backends = [os.environ["MUJOCO_GL"]] if os.environ.get("MUJOCO_GL") else ["egl", "osmesa"]
    reasons = []
    for name in backends:
        try:
            return importlib.import_module(f"mujoco.{name}").GLContext(width, height)
        except Exception as error:  # each library raises its own classes
            reasons.append(f"{name}: {error}")
    raise RenderingError(
        f"cannot draw off screen ({'; '.join(reasons)}); install libegl1 or libosmesa6 and set MUJOCO_GL to egl or osmesa"
    )
