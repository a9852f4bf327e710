"""Batched robots in a task: reads raw signals and takes targets for joints or rotors, like a robot."""

from collections.abc import Mapping
from dataclasses import replace

import torch

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.kinematics import KinematicChain, chain_from_mjcf, joint_frames, tip_point

from .columns import Columns, columns
from .contacts import ContactTimer
from .curricula import RandomizationCurriculum, make_ranges
from .drive import Drive, make_drive
from .engine import ENGINE_PARAMETERS, Engine, EngineState
from .latency import CommandDelay
from .measure import Measurement
from .randomization import Term, check_acts, parameters_of
from .randomizer import Randomizer
from .rotations import from_yaw, multiply
from .state import State, StateError, TensorState, check_state, part_of, prefixed
from .task import Command, Curriculum, Task
from .task_checks import check_start, check_task
from .terrain import HeightField, height_at

_NO_DELAY = 0.0


class WorldError(IsthmusError, ValueError):
    """A world is asked for what its robot cannot do."""


class World(TensorState):
    """N robots at the task. Control is at the task's period; physics, actuators and delays at its physics step.

    Signals as in `hardware/signals.py`, float32, shape (num_envs, width). A reset draws a start, a command and every randomised
    parameter anew. The same seed gives the same bits, and so does
    a state taken up in another world of the same task, engine, randomisation and seed.
    """

    _changing = (
        "randomizer", "drive", "_delay", "_target", "measurement", "contacts", "last_joint_vel", "failures", "command",
        "curriculum", "ranges",
    )  # fmt: skip

    def __init__(
        self,
        task: Task,
        engine: Engine,
        *,
        seed: int,
        randomization: tuple[Term, ...] | None = None,
        ranges: RandomizationCurriculum | None = None,
    ) -> None:
        """Begin the first episodes.

        Args:
            task: what is to be done.
            engine: of the task's scene.
            seed: of all that is random.
            randomization: instead of the task's own.
            ranges: how randomised ranges grow; None: they are whole from the start.
        """
        check_task(task)
        self.task, self.engine, self.seed = task, engine, seed
        self.num_envs, self.robot = engine.num_envs, engine.scene.robot
        self.num_joints = len(self.robot.joints)
        self.generator = torch.Generator().manual_seed(seed)
        self.randomization = terms = task.randomization if randomization is None else randomization  # in full
        self.randomizer = Randomizer(terms, self.num_envs, self.num_joints, self.generator)
        check_acts(terms, engine.scene, task.estimates)
        self.parameters = self.randomizer.values  # by name, (num_envs, width); as drawn last
        self.default_pos = torch.from_numpy(self.robot.array("default_pos")).float()
        self.drive: Drive = make_drive(self.robot, engine, self.parameters)
        self._delay = CommandDelay(
            self.num_envs,
            self.drive.width,
            period=task.period,
            dt=task.physics_dt,
            max_delay=max(_largest(terms, "latency_s"), task.period),
            max_jitter=_largest(terms, "latency_jitter_s"),
            generator=self.generator,
        )
        self._target = torch.zeros(self.num_envs, self.drive.width)
        self.measurement = Measurement(self, longest_delay=_largest(terms, "observation_delay_s"))
        self.contacts = ContactTimer(self.num_envs, len(self.robot.contact_bodies), task.period)
        self.last_joint_vel = torch.zeros(self.num_envs, self.num_joints)
        self.parameter_changes = 0  # how often any were drawn, so far
        self.failures = 0  # environments reset because physics failed, so far
        self._chain: KinematicChain | None = None
        ground = engine.scene.ground
        self._ground = torch.from_numpy(ground.heights) if isinstance(ground, HeightField) else None
        self._ground_spacing = ground.spacing if isinstance(ground, HeightField) else 0.0
        self.command: Command = task.command(self)
        self.curriculum: Curriculum | None = None if task.curriculum is None else task.curriculum(self)
        self.ranges: Curriculum | None = None if ranges is None else make_ranges(self, ranges)
        self._curricula = tuple(part for part in (self.curriculum, self.ranges) if part is not None)
        every = torch.arange(self.num_envs)
        self._apply(self.randomizer.draw(every, "build"), every)
        self.reset(every)
        lost = engine.failed().nonzero().flatten()
        if lost.numel():
            raise WorldError(
                f"start of task {task.name!r} is a state that physics cannot have, in environments {lost[:8].tolist()}"
            )

    def reset(self, ids: torch.Tensor, command: torch.Tensor | None = None) -> None:
        """Start new episodes in environments `ids` (k,) int64; `command` (k, w) instead of random ones."""
        if ids.numel() == 0:
            return
        drawn = self.randomizer.draw(ids, "reset")
        for part in self._curricula:
            drawn += part.begin(ids)
        self._apply(tuple(dict.fromkeys(drawn)), ids)
        start = self._disturbed(self._start(ids), ids)
        self.engine.reset(ids, start)
        self.command.reset(ids)
        if command is not None:
            self.command.value[ids] = command
        rest = self.drive.rest(start.joint_pos)
        self._delay.reset(rest, ids)
        self.drive.reset(ids)
        if self.robot.contact_bodies:
            self.contacts.reset(ids, self.engine.contact_force()[ids])
        self.last_joint_vel[ids] = start.joint_vel
        self.measurement.reset(ids)
        self._target = self._target.clone()  # what was handed out before stays as it was
        self._target[ids] = self.drive.reported(rest, self.measurement.joint_pos[ids])

    def read(self) -> dict[str, torch.Tensor]:
        """The raw signals of now."""
        return {**self.measurement.signals, self.drive.signal: self._target, self.command.signal: self.command.value}

    def write(self, target: torch.Tensor) -> None:
        """Command targets (num_envs, width) in the unit of the drive's signal; joint angles as encoders report them."""
        self._target = target
        self._delay.write(self.drive.true_target(target, self.parameters.get("encoder_offset_rad")))

    def step(self) -> None:
        """Let one control period pass."""
        for name, ids in self.randomizer.due(self.task.period).items():
            self._apply((name,), ids)
        self.last_joint_vel = self.engine.joint_vel()
        positions = self.drive.step(self._delay.all_substeps())
        self.measurement.update(positions)
        if self.robot.contact_bodies:
            self.contacts.update(self.engine.contact_force())
        for part in self._curricula:
            part.step()
        self.command.step()

    def ended(self, ids: torch.Tensor, success: torch.Tensor) -> None:
        """Tell, before their reset, how the episodes in environments `ids` (k,) ended; success (k,) bool."""
        for part in self._curricula:
            part.ended(ids, success)

    def curriculum_log(self) -> dict[str, float]:
        """Where curricula stand, by name; empty without any."""
        return {name: value for part in self._curricula for name, value in part.log().items()}

    def apply_force(self, force: torch.Tensor) -> None:
        """A force (num_envs, 3) N from outside on the base's centre of mass, world frame, until the next call or a reset.

        Raises:
            WorldError: a robot whose base is fixed, or forces that cannot be.
        """
        if not self.robot.floating:
            raise WorldError(f"robot {self.robot.name!r} is fixed to the world: no force moves its base")
        if force.shape != (self.num_envs, 3) or not bool(torch.isfinite(force).all()):
            raise WorldError(f"forces must be finite and of shape {(self.num_envs, 3)}, got {tuple(force.shape)}")
        self.drive.push(force)

    def effort(self) -> torch.Tensor:
        """Joint efforts at the end of the last tick, (num_envs, n) N m or N."""
        return self.drive.effort()

    def reach_chain(self) -> KinematicChain:
        """The chain to the tip; raises FormatError for a robot that has none."""
        if self._chain is None:
            self._chain = chain_from_mjcf(self.robot.model_path, self.robot.reach_site())
            self._chain_index = columns([self.robot.joint_names.index(name) for name in self._chain.joint_names])
        return self._chain

    @property
    def chain_index(self) -> Columns:
        """The chain's joints among the robot's."""
        self.reach_chain()
        return self._chain_index

    def tip_frame(self) -> tuple[torch.Tensor, torch.Tensor]:
        """True tip position (num_envs, 3) m, and rotation of the chain's last link -> base frame, (num_envs, 3, 3)."""
        chain = self.reach_chain()
        rotations, _, tip = joint_frames(chain, self.engine.joint_pos()[:, self.chain_index], torch)
        return tip, rotations[-1]

    def tip_position(self) -> torch.Tensor:
        """The first of `tip_frame` alone, which takes half the time."""
        return tip_point(self.reach_chain(), self.engine.joint_pos()[:, self.chain_index], torch)

    def ground_height(self, points: torch.Tensor) -> torch.Tensor:
        """Height of the ground below points (num_envs, m, 2) m, world frame. Returns (num_envs, m) m."""
        if self._ground is None:
            return torch.zeros(points.shape[:-1])
        return height_at(self._ground, self._ground_spacing, points)

    def state_dict(self) -> State:
        """All that the future depends on: engine, random numbers, delays, actuators, commands, curricula."""
        state = super().state_dict() | prefixed("engine", self.engine.save())
        return state | {"seed": torch.tensor(self.seed)}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from the state of a world of the same task, engine, randomisation and seed; raises ValueError for another's."""
        check_state("World", self.state_dict(), state)
        if int(state["seed"]) != self.seed:
            raise StateError(
                f"state of a world of seed {int(state['seed'])}, got one of seed {self.seed}: build it with the saved seed"
            )
        self.engine.restore(part_of("engine", state))
        self._take(state)

    def uniform(self, *shape: int) -> torch.Tensor:
        """Numbers in [0, 1) from the world's own stream."""
        return torch.rand(shape, generator=self.generator)

    def normal(self, *shape: int) -> torch.Tensor:
        """Standard normal numbers from the world's own stream."""
        return torch.randn(shape, generator=self.generator)

    def integers(self, high: int, count: int) -> torch.Tensor:
        """(count,) int64 below `high` from the world's own stream."""
        return torch.randint(high, (count,), generator=self.generator)

    def _apply(self, names: tuple[str, ...], ids: torch.Tensor) -> None:
        """Let newly drawn parameters act in environments `ids`."""
        self.parameter_changes += 1
        for name in names:
            values = self.parameters[name][ids]
            if name in ENGINE_PARAMETERS:
                self.engine.set_parameter(name, values, ids)
            elif name == "latency_s":
                self._delay.set_delay(values[:, 0], ids)
            elif name == "latency_jitter_s":
                self._delay.set_jitter(values[:, 0], ids)
            elif name == "packet_loss_probability":
                self._delay.set_loss(values[:, 0], ids)
            elif name == "observation_delay_s" and self.measurement.delay is not None:
                self.measurement.delay.set_delay(values[:, 0], ids)
            elif name == "push_velocity_m_s":
                self.engine.add_velocity("base", torch.nn.functional.pad(values, (0, 1)), ids)
            else:
                self.drive.set_parameter(name, values, ids)

    def _start(self, ids: torch.Tensor) -> EngineState:
        """The task's start, checked: a row too few would be spread over all."""
        scene = self.engine.scene
        return check_start(
            self.task.start(self, ids),
            self.task,
            count=ids.numel(),
            num_joints=self.num_joints,
            free=scene.free_bodies,
            fixed=scene.fixed_objects,
        )

    def _disturbed(self, start: EngineState, ids: torch.Tensor) -> EngineState:
        """The task's start with the randomised parts of the initial state added."""
        drawn = {name: self.parameters[name][ids] for name in self.parameters if name.startswith("initial_")}
        if not drawn:
            return start
        free = dict(start.free)
        if "base" in free:
            base, zero = free["base"], torch.zeros(1)
            turn = from_yaw(drawn["initial_yaw_rad"][:, 0]) if "initial_yaw_rad" in drawn else None
            free["base"] = replace(
                base,
                pos=base.pos + torch.nn.functional.pad(drawn.get("initial_height_m", torch.zeros(1, 1)), (2, 0)),
                quat=base.quat if turn is None else multiply(turn, base.quat),
                lin_vel=base.lin_vel + drawn.get("initial_base_lin_vel_m_s", zero),
                ang_vel=base.ang_vel + drawn.get("initial_base_ang_vel_rad_s", zero),
            )
        moved = start.joint_pos + drawn.get("initial_joint_pos_rad", torch.zeros(1))
        return replace(start, joint_pos=moved, free=free)


def _largest(terms: tuple[Term, ...], name: str) -> float:
    """Largest value that a term can give a parameter; 0 where it is not randomised."""
    for term in terms:
        names = parameters_of(term)
        if name in names:
            high = term.distribution.support[1]
            return high[names.index(name)] if isinstance(high, tuple) else high
    return _NO_DELAY
