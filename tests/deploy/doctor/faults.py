"""What goes wrong between training and robot, as functions that turn a good bundle, robot and log into bad ones.

The numbers in `thread` are those of public reports of the same kind of mistake, kept to show that each class is real.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
from benches import Good

from isthmus.deploy.doctor.rigid_body import matrix
from isthmus.deploy.doctor.signal_log import SignalLog
from isthmus.hardware.robot import RobotSpec
from isthmus.policies.bundle import MANIFEST_KEY, seal

Inject = Callable[["Case"], "Case"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """What the doctor is given."""

    good: Good
    path: Path  # of the bundle
    robot: RobotSpec
    log: SignalLog
    folder: Path

    def read_as(self, **signals: np.ndarray) -> "Case":
        """Other signals were read; what a policy made of them is not in the log."""
        return replace(self, log=replace(blind(self.log).with_signals(**signals)))

    def joint(self, name: str) -> int:
        return self.log.metadata.joint_names.index(name)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A class of mistake."""

    name: str
    on: str  # bench
    words: tuple[str, ...]  # any of which names the cause, as regular expressions
    inject: Inject


def blind(log: SignalLog) -> SignalLog:
    """Without what a policy proposed."""
    metadata = replace(log.metadata, policy_id="")
    return replace(log, metadata=metadata, proposed=None, action=None, observation=None)


def permuted(log: SignalLog, order: list[int], *names: str) -> SignalLog:
    """Value k of some joint signals is that of joint order[k]."""
    log = blind(log)
    executed = log.executed
    if "executed" in names and executed is not None:
        executed = executed[:, order]
    changed = {name: log.signals[name][:, order] for name in names if name != "executed"}
    return replace(log, signals={**log.signals, **changed}, executed=executed)


BOTH = ("joint_pos", "joint_vel")
DRIVER = (*BOTH, "joint_target", "executed")


def swap(i: int, j: int, *names: str) -> Inject:
    def inject(case: Case) -> Case:
        order = list(range(len(case.robot.joints)))
        order[i], order[j] = j, i
        return replace(case, log=permuted(case.log, order, *names))

    return inject


def reorder(make: Callable[[tuple[str, ...]], list[int]], *names: str) -> Inject:
    return lambda case: replace(case, log=permuted(case.log, make(case.log.metadata.joint_names), *names))


def exchanged(*pairs: tuple[str, str]) -> Callable[[tuple[str, ...]], list[int]]:
    def order(names: tuple[str, ...]) -> list[int]:
        table = {**dict(pairs), **{b: a for a, b in pairs}}
        return [names.index(table.get(name[:2], name[:2]) + name[2:]) for name in names]

    return order


def by_kind(names: tuple[str, ...]) -> list[int]:
    return [limb * 3 + kind for kind in range(3) for limb in range(len(names) // 3)]


def signal(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Inject:
    return lambda case: case.read_as(**{name.replace(".", "__"): change(case.log.signals[name])})


def signals(change: Callable[[np.ndarray], np.ndarray], *names: str) -> Inject:
    return lambda case: case.read_as(**{name: change(case.log.signals[name]) for name in names})


def executed(change: Callable[[np.ndarray], np.ndarray]) -> Inject:
    """What was written is not what was asked for; the log says so."""

    def inject(case: Case) -> Case:
        assert case.log.executed is not None
        return replace(case, log=replace(case.log, proposed=None, executed=change(case.log.executed)))

    return inject


def robot(**changes: Callable[[np.ndarray], np.ndarray]) -> Inject:
    """The robot's description has other numbers."""

    def inject(case: Case) -> Case:
        joints = list(case.robot.joints)
        for field, change in changes.items():
            values = change(case.robot.array(field))
            joints = [replace(joint, **{field: float(v)}) for joint, v in zip(joints, values, strict=True)]
        return replace(case, robot=replace(case.robot, joints=tuple(joints)))

    return inject


def late(ticks: int, *names: str) -> Inject:
    def change(values: np.ndarray) -> np.ndarray:
        return np.vstack([np.repeat(values[:1], ticks, axis=0), values[:-ticks]])

    return signals(change, *names)


def stamps(change: Callable[[np.ndarray], np.ndarray]) -> Inject:
    return lambda case: replace(case, log=replace(case.log, stamps=change(case.log.stamps).astype(np.int64)))


def every(ticks: int, *, true_stamps: bool) -> Inject:
    """The loop ran slower than it should: the policy saw only every so many ticks."""

    def inject(case: Case) -> Case:
        log = blind(case.log)
        times = log.stamps[::ticks] if true_stamps else log.stamps[: len(log.stamps[::ticks])]
        assert log.executed is not None
        return replace(
            case,
            log=replace(
                log,
                stamps=times,
                begin=log.begin[::ticks],
                signals={name: values[::ticks] for name, values in log.signals.items()},
                executed=log.executed[::ticks],
            ),
        )

    return inject


def between(*, true_stamps: bool) -> Inject:
    """The loop ran twice as fast: a reading between any two."""

    def twice(values: np.ndarray) -> np.ndarray:
        time = np.arange(2 * len(values) - 1) / 2.0
        return np.stack([np.interp(time, np.arange(len(values)), column) for column in values.T], axis=-1)

    def inject(case: Case) -> Case:
        log = blind(case.log)
        assert log.executed is not None
        count = 2 * len(log) - 1
        begin = np.zeros(count, dtype=bool)
        begin[::2] = log.begin
        step = log.metadata.period_ns // (2 if true_stamps else 1)
        return replace(
            case,
            log=replace(
                log,
                stamps=log.stamps[0] + np.arange(count) * step,
                begin=begin,
                signals={name: twice(values) for name, values in log.signals.items()},
                executed=np.repeat(log.executed, 2, axis=0)[:count],
            ),
        )

    return inject


def seen(term: str, change: Callable[[np.ndarray], np.ndarray]) -> Inject:
    """The network was shown something else in one term's block (T, lags, w)."""

    def inject(case: Case) -> Case:
        from isthmus.policies.contract import sample_width

        contract, shown = case.good.bundle.manifest.contract, case.log.observation
        assert shown is not None
        shown, start = shown.copy(), 0
        for item in contract.observation:
            width = sample_width(item, contract) * len(item.lags)
            part = slice(start, start + width)
            start += width
            if item.name == term:
                block = shown[:, part].reshape(len(shown), len(item.lags), -1)
                shown[:, part] = change(block).reshape(len(shown), width)
                break
        return replace(case, log=replace(case.log, observation=shown))

    return inject


def by_time(case: Case) -> Case:
    """The network was shown histories sample by sample instead of term by term."""
    from isthmus.policies.contract import sample_width

    contract, shown = case.good.bundle.manifest.contract, case.log.observation
    assert shown is not None
    places: list[tuple[int, int]] = []
    start = 0
    for index, item in enumerate(contract.observation):
        width = sample_width(item, contract)
        for lag in item.lags:
            places += [(-lag * 1000 + index, start + k) for k in range(width)]
            start += width
    order = [place for _, place in sorted(places, key=lambda entry: entry[0])]
    return replace(case, log=replace(case.log, observation=shown[:, order]))


def narrower(case: Case) -> Case:
    """A history was left out of what the network was shown."""
    assert case.log.observation is not None
    return replace(case, log=replace(case.log, observation=case.log.observation[:, 6:]))


def without(name: str) -> Inject:
    def inject(case: Case) -> Case:
        kept = {key: values for key, values in case.log.signals.items() if key != name}
        return replace(case, log=replace(blind(case.log), signals=kept))

    return inject


def one_joint(name: str, joint: int, change: Callable[[np.ndarray], np.ndarray], *also: str) -> Inject:
    """One joint's values in a few signals."""

    def inject(case: Case) -> Case:
        log = blind(case.log)
        changed = {}
        for key in (name, *also):
            if key != "executed" and key in log.signals:
                values = log.signals[key].copy()
                values[:, joint] = change(values[:, joint])
                changed[key] = values
        target = log.executed
        if "executed" in (name, *also) and target is not None:
            target = target.copy()
            target[:, joint] = change(target[:, joint])
        return replace(case, log=replace(log, signals={**log.signals, **changed}, executed=target))

    return inject


def world_frame(case: Case) -> Case:
    """Another heading of the same flight, with the velocity left in the world's frame."""
    log = case.log
    c, s = np.cos(1.2), np.sin(1.2)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    velocity = np.einsum("tij,tj->ti", turn @ matrix(log.signals["base_quat"]), log.signals["base_lin_vel"])
    quat = log.signals["base_quat"]
    a, d = np.cos(0.6), np.sin(0.6)
    w, x, y, z = quat.T
    quat = np.stack([a * w - d * z, a * x - d * y, a * y + d * x, a * z + d * w], axis=-1)
    return case.read_as(
        base_quat=quat,
        base_lin_vel=velocity,
        base_pos=log.signals["base_pos"] @ turn.T,
        command__position=log.signals["command.position"] @ turn.T,
    )


def file(change: Callable[[bytes], bytes]) -> Inject:
    def inject(case: Case) -> Case:
        path = case.folder / "bad.onnx"
        path.write_bytes(change(case.path.read_bytes()))
        return replace(case, path=path)

    return inject


def manifest(change: Callable[[dict], None]) -> Inject:  # pyright: ignore[reportMissingTypeArgument]
    """Another manifest, sealed again as an exporter would."""

    def edit(data: bytes) -> bytes:
        model = onnx.load_from_string(data)
        for entry in model.metadata_props:
            if entry.key == MANIFEST_KEY:
                values = json.loads(entry.value)
                change(values)
                entry.value = json.dumps(values)
        return seal(model.SerializeToString())

    return file(edit)


def weights(change: Callable[[np.ndarray], np.ndarray]) -> Inject:
    """Another network in the graph, sealed again."""

    def edit(data: bytes) -> bytes:
        model = onnx.load_from_string(data)
        biggest = max(
            (t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT),
            key=lambda tensor: int(np.prod(tensor.dims)),
        )
        values = onnx.numpy_helper.to_array(biggest)
        biggest.CopyFrom(onnx.numpy_helper.from_array(change(values).astype(values.dtype), biggest.name))
        return seal(model.SerializeToString())

    return file(edit)
