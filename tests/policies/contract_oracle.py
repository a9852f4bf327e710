"""A contract computed tick by tick in float64, straight from the words of its docstrings: an oracle for torch, ONNX and C.

It knows nothing of plans: every term is worked out by name, histories are lists of past samples, the clock is a count.
"""

import math

import numpy as np

from isthmus.hardware.kinematics import joint_frames


class Oracle:
    """One robot's episode under one contract."""

    def __init__(self, contract):
        self.contract, self.samples, self.tick = contract, [[] for _ in contract.observation], 0
        count = len(contract.action.joints)
        self.last, self.last_raw, self.smoothed, self.total = (np.zeros(count) for _ in range(4))
        self.waiting, self.clock_ticks, self.restarted, self.standing = [], 0, False, False

    def observe(self, signals):
        signals = {name: np.asarray(value, dtype=np.float64) for name, value in signals.items()}
        phases = self.phases(signals)
        columns = []
        for term, past in zip(self.contract.observation, self.samples, strict=True):
            past.append(self.sample(term, signals, phases))
            columns.append([self.at(term, past, lag) for lag in term.lags])
        self.tick += 1
        if self.contract.layout == "time":
            columns = list(zip(*columns, strict=True))
        return np.concatenate([sample for column in columns for sample in column])

    def at(self, term, past, lag):
        if lag < len(past):
            return past[-1 - lag]
        return np.zeros_like(past[0]) if term.fill == "zero" else past[0]

    def sample(self, term, signals, phases):
        value = self.raw(term, signals, phases) - np.asarray(term.offset)
        low, high = (
            (-math.inf, math.inf)
            if term.clip is None
            else (-term.clip, term.clip)
            if not isinstance(term.clip, tuple)
            else term.clip
        )
        if term.clip_scaled:
            return np.clip(value * np.asarray(term.scale), low, high)
        return np.clip(value, low, high) * np.asarray(term.scale)

    def raw(self, term, signals, phases):
        contract, name = self.contract, term.name
        driven = contract.action.joints
        joints = driven if term.joints is None else term.joints
        of = [contract.joint_names.index(joint) for joint in joints if joint in contract.joint_names]
        default = np.array([joint.default_pos for joint in contract.joints])
        if name in ("last_action", "last_action_raw"):
            values = self.last if name == "last_action" else self.last_raw
            return values[[driven.index(joint) for joint in joints]]
        if name == "constant":
            return np.array(term.values)
        if name == "signal":
            value = signals[term.signal]
            return value if term.index is None else value[list(term.index)]
        if name == "time":
            return np.array([self.tick * contract.period_ns * 1e-9])
        if name.startswith("phase"):
            return {"phase": phases, "phase_sin": np.sin(2 * np.pi * phases), "phase_cos": np.cos(2 * np.pi * phases)}[
                name
            ]
        if name in ("tip_error", "tip_rotation"):
            return self.tip(name, signals)
        if name in ("base_rotation", "base_rpy"):
            return attitude(name, signals["base_quat"])
        return {
            "joint_pos": lambda: (signals["joint_pos"] - default)[of],
            "joint_pos_abs": lambda: signals["joint_pos"][of],
            "joint_vel": lambda: signals["joint_vel"][of],
            "all_joint_pos": lambda: signals["joint_pos"] - default,
            "all_joint_vel": lambda: signals["joint_vel"],
            "joint_target": lambda: signals["joint_target"][of],
            "joint_target_offset": lambda: (signals["joint_target"] - default)[of],
            "joint_lead": lambda: (signals["joint_target"] - signals["joint_pos"])[of],
            "base_pos_error": lambda: signals["command.position"] - signals["base_pos"],
            "command": lambda: signals[contract.command.signal],
            "target": lambda: signals["command.target"],
        }.get(name, lambda: signals[name])()

    def tip(self, name, signals):
        chain = self.contract.chain
        angles = signals["joint_pos"][[self.contract.joint_names.index(joint) for joint in chain.joint_names]]
        rotations, _, tip = joint_frames(chain, angles)
        if name == "tip_rotation":
            return rotations[-1].reshape(-1)
        return rotations[0].T @ (signals["command.target"] - tip)

    def phases(self, signals):
        clock = self.contract.clock
        if clock is None:
            return None
        start, step = np.array(clock.start), clock.frequency * self.contract.period_ns * 1e-9
        if clock.still_below is not None:
            command = signals[self.contract.command.signal]
            small = all(np.linalg.norm(command[list(part)]) < clock.still_below for part in clock.still_parts)
            if self.standing and not small:
                self.restarted, self.clock_ticks = True, 0
            self.standing = small
        now = (np.array(clock.restart) if self.restarted else start) + self.clock_ticks * step
        self.clock_ticks += 1
        return np.array(clock.still) if self.standing else now % 1.0

    def act(self, given, signals):
        rule, contract = self.contract.action, self.contract
        signals = {name: np.asarray(value, dtype=np.float64) for name, value in signals.items()}
        count = len(rule.joints)
        if not self.waiting:
            self.waiting = list(np.asarray(given, dtype=np.float64).reshape(rule.chunk, count))
        action = self.waiting.pop(0)
        clip = np.full(count, math.inf) if rule.clip is None else np.broadcast_to(rule.clip, count)
        low = -clip if rule.clip_low is None else np.broadcast_to(rule.clip_low, count)
        self.last_raw, self.last = action, np.clip(action, low, clip)
        self.smoothed = self.smoothed + rule.smoothing * (self.last - self.smoothed)
        u = self.smoothed * np.asarray(rule.scale)
        if rule.kind == "rotor-speed":
            return np.clip(rule.hover + u, 0.0, rule.max_speed)
        names = contract.joint_names
        joints = [contract.joints[names.index(name)] for name in rule.joints]
        others = {"joint_target": "joint_target"}.get(rule.target)
        whole = signals["joint_target"].copy() if others else np.zeros(len(names))
        if getattr(rule, "others", "keep") == "default":
            whole = np.array([joint.default_pos for joint in contract.joints])
        for index, joint in enumerate(joints):
            whole[names.index(joint.name)] = self.one(rule, joint, index, u[index], signals)
        return whole

    def one(self, rule, joint, index, u, signals):
        place = self.contract.joint_names.index(joint.name)
        offset = (
            joint.default_pos
            if getattr(rule, "offset", None) is None
            else np.broadcast_to(rule.offset, len(rule.joints))[index]
        )
        if rule.kind == "joint-increment":
            measured = signals["joint_pos"][place]
            moved = np.clip(signals["joint_target"][place] + u, measured - rule.max_lead, measured + rule.max_lead)
            return np.clip(moved, joint.lower, joint.upper)
        if rule.kind == "joint-integral":
            self.total[index] = np.clip(self.total[index] + u, joint.lower - offset, joint.upper - offset)
            return offset + self.total[index]
        if rule.kind == "joint-velocity":
            return np.clip(u, -joint.velocity_limit, joint.velocity_limit)
        if rule.kind == "joint-effort":
            return u
        if rule.highest is not None:
            lowest = -math.inf if rule.lowest is None else np.broadcast_to(rule.lowest, len(rule.joints))[index]
            return np.clip(offset + u, lowest, np.broadcast_to(rule.highest, len(rule.joints))[index])
        return np.clip(offset + u, joint.lower, joint.upper) if rule.limited else offset + u


def attitude(name, quat):
    w, x, y, z = quat
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    rotation = np.eye(3) + 2 * w * cross + 2 * cross @ cross  # Rodrigues, of a unit quaternion
    if name == "base_rotation":
        return rotation.reshape(-1)
    return np.array(
        [
            math.atan2(rotation[2, 1], rotation[2, 2]),
            -math.asin(np.clip(rotation[2, 0], -1, 1)),
            math.atan2(rotation[1, 0], rotation[0, 0]),
        ]
    )
