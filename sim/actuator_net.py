"""Learned actuators: an ONNX network from the history of position error and velocity to torque."""

from dataclasses import dataclass
from pathlib import Path

import onnxruntime as ort
import torch

from isthmus.hardware.errors import IsthmusError

from .state import TensorState

INPUT, OUTPUT = "history", "effort"
NET_FORMAT = (
    f'one float32 input "{INPUT}" of shape [rows, 2 h] and one float32 output "{OUTPUT}" of shape [rows, 1], rows free. '
    "A row is one joint of one robot: h position errors (target - position, rad, newest first), "
    "then h velocities (rad/s, newest first), a fixed time apart; the output is its torque, N m"
)


class ActuatorNetError(IsthmusError, ValueError):
    """A file is no actuator network that can run here."""


@dataclass(frozen=True, kw_only=True)
class NetInputs:
    """What an actuator network needs."""

    samples: int  # of position error, and as many of velocity, the newest that of now
    interval: float  # s between samples

    @property
    def memory(self) -> float:
        """Age of the oldest sample, s."""
        return (self.samples - 1) * self.interval

    def __str__(self) -> str:
        ages = ", ".join(f"{1000 * self.interval * k:g}" for k in range(self.samples))
        return f"position error (target - position, rad) and velocity (rad/s) {ages} ms ago, in this order"


def net_inputs(path: Path, interval: float) -> NetInputs:
    """What the network in a file needs; raises ActuatorNetError when it is none."""
    return NetInputs(samples=_samples(_open(path), path), interval=interval)


class ActuatorNet(TensorState):
    """A network at all joints of all environments, with the history that it needs."""

    _changing = ("_past", "_newest", "_fresh", "_any_fresh")

    def __init__(self, path: Path, num_envs: int, num_joints: int, *, interval: float, dt: float) -> None:
        """Raises ActuatorNetError when the file does not hold what NET_FORMAT says.

        Args:
            path: ONNX file.
            num_envs: environments.
            num_joints: joints.
            interval: time between the samples of its history, s; a whole number of physics steps.
            dt: physics step, s.
        """
        self._session = _open(path)
        self.inputs = NetInputs(samples=_samples(self._session, path), interval=interval)
        stride = round(interval / dt)
        if stride < 1 or abs(interval / dt - stride) > 1e-6:
            raise ActuatorNetError(
                f"{path}: its samples are {interval} s apart, which is no whole number of physics steps of {dt} s; "
                "choose a physics step that divides it"
            )
        self._stride = stride
        depth = stride * (self.inputs.samples - 1) + 1
        self._past = torch.zeros(depth, 2, num_envs, num_joints)  # ring of position errors and velocities
        self._newest = 0
        self._fresh = torch.ones(num_envs, dtype=torch.bool)  # without a history yet
        self._any_fresh = True
        self._rows = torch.zeros(num_envs, num_joints, 2, self.inputs.samples)

    def reset(self, ids: torch.Tensor) -> None:
        """Forget the history; the next sample stands for all of it."""
        self._fresh[ids] = True
        self._any_fresh = True

    def effort(self, pos_error: torch.Tensor, joint_vel: torch.Tensor) -> torch.Tensor:
        """Torque for the next physics step; call it once per step.

        Args:
            pos_error: (num_envs, n) rad, target minus position.
            joint_vel: (num_envs, n) rad/s.

        Returns:
            (num_envs, n) N m.
        """
        self._newest = (self._newest - 1) % len(self._past)
        self._past[self._newest, 0], self._past[self._newest, 1] = pos_error, joint_vel
        if self._any_fresh:
            ids = self._fresh.nonzero().flatten()
            self._past[:, :, ids] = self._past[self._newest][:, ids]
            self._fresh[:] = self._any_fresh = False
        for sample in range(self.inputs.samples):
            slot = self._past[(self._newest + sample * self._stride) % len(self._past)]
            self._rows[:, :, 0, sample], self._rows[:, :, 1, sample] = slot[0], slot[1]
        rows = self._rows.view(-1, 2 * self.inputs.samples)
        (effort,) = self._session.run([OUTPUT], {INPUT: rows.numpy()})
        return torch.from_numpy(effort).view(pos_error.shape)


def _open(path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # the simulator's threads share the cores already
    options.log_severity_level = 4
    if not path.is_file():
        raise ActuatorNetError(f"{path}: no such file; expected an ONNX model with {NET_FORMAT}")
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises its own classes, one per cause
        raise ActuatorNetError(f"{path}: onnxruntime {ort.__version__} cannot load it: {error}") from None


def _samples(session: ort.InferenceSession, path: Path) -> int:
    """Length of the history, after a look at names, types and shapes."""
    ins = [(item.name, item.type, tuple(item.shape)) for item in session.get_inputs()]
    outs = [(item.name, item.type, tuple(item.shape)) for item in session.get_outputs()]
    good = len(ins) == 1 and len(outs) == 1
    good = good and ins[0][:2] == (INPUT, "tensor(float)") and outs[0][:2] == (OUTPUT, "tensor(float)")
    good = good and len(ins[0][2]) == 2 and len(outs[0][2]) == 2 and outs[0][2][1] == 1
    good = good and not isinstance(ins[0][2][0], int) and not isinstance(outs[0][2][0], int)
    width = ins[0][2][1] if good else None
    if not isinstance(width, int) or width < 2 or width % 2:
        raise ActuatorNetError(f"{path}: inputs {ins}, outputs {outs}; expected {NET_FORMAT}")
    return width // 2
