"""An arm of Feetech STS3215 servos as a `Robot`."""

import struct
import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from . import feetech_protocol as sts
from .errors import BusTimeout, CalibrationError, HardwareError, MissingDevice
from .feetech_bus import FeetechBus
from .interface import JointState, Silence
from .joint_calibration import ArmCalibration, EncoderMap, encoder_map
from .robot import JointSpec, RobotSpec

# Present position, velocity, load, voltage and temperature lie side by side: one sync read gets them all.
_STATE_ADDRESS = sts.register("present_position").address
_STATE = struct.Struct("<HHHBB")
_RANGE_MARGIN = 1e-6  # rad
_POSITION_SIGN = 15
# As LeRobot configures its followers; p_gain comes from the robot's spec.
_SETTINGS = (
    ("return_delay", 0),
    ("operating_mode", 0),
    ("i_gain", 0),
    ("d_gain", 32),
    ("max_acceleration", 254),
    ("acceleration", 254),
)


class FeetechArm:
    """STS3215 servos on one bus.

    Args:
        spec: the robot. `self.spec` is the same with each range narrowed to what the calibration allows.
        bus: not yet open; this arm opens and closes it.
        calibration: of this very arm.

    Raises:
        CalibrationError: the calibration is not for this robot, or leaves the default pose out of range.
    """

    silence = Silence(after_s=0.0, then="hold")  # the servo drives to its last goal position and stays there

    def __init__(self, spec: RobotSpec, bus: FeetechBus, calibration: ArmCalibration) -> None:
        self.senses: Mapping[str, int] = {}
        self._map = encoder_map(calibration, spec)
        self.spec = _narrowed(spec, self._map)
        self.bus = bus
        self.bus.names = {joint.bus_id: joint.name for joint in spec.joints}
        self._calibration = calibration
        self._ids = [joint.bus_id for joint in spec.joints]
        self._lower = self.spec.array("lower") - _RANGE_MARGIN
        self._upper = self.spec.array("upper") + _RANGE_MARGIN
        self._torque_on = False
        self._goal: list[int] = []  # counts, of the last goal sent
        n = len(spec.joints)
        self._counts = np.zeros(n)
        self._counts_per_s = np.zeros(n)
        self._state = JointState(
            joint_pos=np.zeros(n), joint_vel=np.zeros(n), temperature=np.zeros(n), stamp_ns=0, errors=0
        )

    def connect(self) -> None:
        """Open the bus, check every servo and set its gains. Switches torque off, so an arm that was held sinks.

        Raises:
            PortNotFound, PortBusy: the port.
            MissingDevice: names the joints that do not answer and those that do.
            DuplicateId, CorruptPacket, ServoFault: as the bus finds them.
            CalibrationError: a servo holds another homing offset than the calibration.
            HardwareError: a servo is no STS3215.
        """
        self.bus.open()
        try:
            self._torque_on = False
            self._check_devices()
            for joint in self.spec.joints:
                self._configure(joint)
        except HardwareError:
            self.bus.close()
            raise

    def read(self) -> JointState:
        """Read all joints with one sync read; raises ServoFault when a servo reports a fault."""
        replies = self._read_state()
        for reply in replies:
            self.bus.raise_fault(reply)
        state = self._state
        for index, reply in enumerate(replies):
            position, velocity, _load, _voltage, state.temperature[index] = _STATE.unpack(reply.data)
            self._counts[index] = sts.decode_sign_magnitude(position, _POSITION_SIGN)
            self._counts_per_s[index] = sts.decode_sign_magnitude(velocity, _POSITION_SIGN)
        state.joint_pos[:] = self._map.to_rad(self._counts)
        state.joint_vel[:] = self._map.to_rad_per_s(self._counts_per_s)
        state.stamp_ns = time.monotonic_ns()
        state.errors = self.bus.repaired_errors
        return state

    def write(self, joint_target: np.ndarray) -> None:
        """Command joint targets, shape (n,), rad.

        The first write after `connect` or `damp` makes the present pose the goal, switches torque on, then sends the
        target.

        Raises:
            HardwareError: wrong shape, not finite, or outside the range of `self.spec`; then nothing was sent.
        """
        self._require_connected()
        self._check_target(joint_target)
        if not self._torque_on:
            self._hold_and_switch_on()
        self._send_goal(self._map.to_counts(joint_target))

    def hold(self) -> None:
        """Keep the last goal, or the measured pose where torque was off; a servo's fault does not keep the others from it.

        Not the measured pose each time: an arm hangs below its goal by what gravity takes, so it would sink at every call.
        """
        self._require_connected()
        if self._torque_on:
            self._send_goal(self._goal)
        else:
            self._hold_and_switch_on()

    def damp(self) -> None:
        """Switch torque off on every servo, also on those after one that does not answer.

        Raises:
            HardwareError: names the joints that did not confirm.
        """
        self._require_connected()
        self._torque_on = False
        self.bus.sync_write("torque_enable", dict.fromkeys(self._ids, 0))  # all at once, then one by one to be sure
        failures: list[str] = []
        for joint in self.spec.joints:
            try:
                self.bus.write_register(joint.bus_id, "torque_enable", 0, ignore_fault=True)
            except HardwareError as error:
                failures.append(f"{joint.name}: {error}")
        if failures:
            raise HardwareError(f"torque may still be on, cut the power: {'; '.join(failures)}")

    def close(self) -> None:
        """Release the bus; may be called twice. Torque stays as it is."""
        self.bus.close()

    def _require_connected(self) -> None:
        if not self.bus.is_open:
            raise HardwareError(f"{self.spec.name} on {self.bus.port} is not connected; call connect() first")

    def _check_devices(self) -> None:
        missing: list[JointSpec] = []
        for joint in self.spec.joints:
            try:
                self.bus.ping(joint.bus_id)
            except BusTimeout:
                missing.append(joint)
        if not missing:
            return
        found = [str(joint.bus_id) for joint in self.spec.joints if joint not in missing]
        remedy = "check cable and id of each" if found else "check power, cable and baud rate"
        raise MissingDevice(
            f"no answer on {self.bus.port} from {', '.join(f'{j.name} (id {j.bus_id})' for j in missing)}; "
            f"ids that answered: {', '.join(found) or 'none'}; {remedy}"
        )

    def _configure(self, joint: JointSpec) -> None:
        """Torque off first; then set what differs, because EPROM wears out."""
        servo_id = joint.bus_id
        self.bus.write_register(servo_id, "torque_enable", 0)
        model = self.bus.read_register(servo_id, "model_number")
        if model != sts.STS3215_MODEL:
            raise HardwareError(
                f"{self.bus.label(servo_id)} is of model {model}, expected {sts.STS3215_MODEL} (STS3215); "
                "is this the right bus?"
            )
        homing = self.bus.read_register(servo_id, "homing_offset")
        expected = self._calibration.joints[joint.name].homing_offset
        if homing != expected:
            raise CalibrationError(
                f"{self.bus.label(servo_id)} holds homing_offset {homing}, its calibration says {expected}; "
                "use the calibration file of this arm, or store that file in the servos with LeRobot"
            )
        settings = [
            (n, v) for n, v in (*_SETTINGS, ("p_gain", joint.p_gain)) if self.bus.read_register(servo_id, n) != v
        ]
        if settings:
            for name, value in (("lock", 0), *settings, ("lock", 1)):
                self.bus.write_register(servo_id, name, value)

    def _check_target(self, joint_target: np.ndarray) -> None:
        n = len(self.spec.joints)
        if np.shape(joint_target) != (n,):
            raise HardwareError(f"joint_target has shape {np.shape(joint_target)}, expected ({n},); nothing was sent")
        ok = (joint_target >= self._lower) & (joint_target <= self._upper)  # false for NaN too
        if ok.all():
            return
        joint = self.spec.joints[int(np.argmin(ok))]
        value = float(joint_target[int(np.argmin(ok))])
        raise HardwareError(
            f"target of {joint.name} is {value} rad, expected a finite one in {joint.lower:.4f} .. {joint.upper:.4f}; "
            "nothing was sent"
        )

    def _read_state(self) -> list[sts.StatusPacket]:
        self._require_connected()
        return self.bus.sync_read(self._ids, _STATE_ADDRESS, _STATE.size)

    def _measured_counts(self) -> list[int]:
        positions = (_STATE.unpack(reply.data)[0] for reply in self._read_state())
        return [sts.decode_sign_magnitude(position, _POSITION_SIGN) for position in positions]

    def _hold_and_switch_on(self) -> None:
        self._send_goal(self._measured_counts())
        try:
            for servo_id in self._ids:
                self.bus.write_register(servo_id, "torque_enable", 1)
        except HardwareError:
            self.bus.sync_write("torque_enable", dict.fromkeys(self._ids, 0))  # all or none
            raise
        self._torque_on = True

    def _send_goal(self, counts: list[int] | np.ndarray) -> None:
        self._goal = [int(count) for count in counts]
        self.bus.sync_write("goal_position", dict(zip(self._ids, self._goal, strict=True)))


def _narrowed(spec: RobotSpec, encoders: EncoderMap) -> RobotSpec:
    """The robot with ranges that both its model and its calibration allow."""
    joints: list[JointSpec] = []
    for joint, lower, upper in zip(spec.joints, encoders.lower, encoders.upper, strict=True):
        narrowed = replace(joint, lower=max(joint.lower, float(lower)), upper=min(joint.upper, float(upper)))
        if not narrowed.lower <= narrowed.default_pos <= narrowed.upper:
            raise CalibrationError(
                f"joint {joint.name!r}: calibrated range {lower:.3f} .. {upper:.3f} rad leaves out the default pose "
                f"{joint.default_pos} rad; calibrate again over the whole range"
            )
        joints.append(narrowed)
    return replace(spec, joints=tuple(joints))


__all__ = ["FeetechArm", "FeetechBus"]
