"""Mirroring a robot left to right: what its observation and action become, as permutations and signs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from tensordict import TensorDict

from isthmus.hardware.errors import IsthmusError


class MirrorError(IsthmusError, ValueError):
    """A description of a mirror image does not hold together."""


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """Mirrored block: `out[i] = signs[i] * block[permutation[i]]`. Mirroring twice gives the block back."""

    permutation: tuple[int, ...]
    signs: tuple[float, ...]

    def __post_init__(self) -> None:
        width = len(self.permutation)
        if len(self.signs) != width or sorted(self.permutation) != list(range(width)):
            raise MirrorError(
                f"need a permutation of 0..{width - 1} and {width} signs, got {self.permutation} and {self.signs}"
            )
        for i, j in enumerate(self.permutation):
            if self.permutation[j] != i or self.signs[i] * self.signs[j] != 1.0:
                raise MirrorError(
                    f"mirroring twice must give the same again: element {i} comes from {j}, which comes from {self.permutation[j]}; "
                    f"signs {self.signs[i]:+g} and {self.signs[j]:+g} (each 1 or -1, equal in a pair)"
                )

    @property
    def width(self) -> int:
        """Elements of the block."""
        return len(self.permutation)

    def matrix(self) -> torch.Tensor:
        """(width, width): mirrored = block @ matrix.T."""
        matrix = torch.zeros(self.width, self.width)
        matrix[torch.arange(self.width), list(self.permutation)] = torch.tensor(self.signs)
        return matrix


@dataclass(frozen=True, kw_only=True)
class MirrorSpec:
    """Mirror images of both observation groups and of the action."""

    actor: Mirror
    critic: Mirror
    action: Mirror


def joint_mirror(joints: Sequence[str], pairs: Mapping[str, str], signs: Mapping[str, float]) -> Mirror:
    """Of one number per joint (angle, velocity, target).

    Args:
        joints: names in the block's order.
        pairs: left -> right; joints that are in no pair are their own mirror image.
        signs: -1 for joints whose axis makes left and right turn opposite ways (usually roll and yaw), 1 for the others; every joint.

    Raises:
        MirrorError: a name that is no joint, a joint without sign, or signs that differ within a pair.
    """
    for name in [*pairs, *pairs.values(), *signs]:
        if name not in joints:
            raise MirrorError(f"unknown joint {name!r}; the robot has {', '.join(joints)}")
    missing = [name for name in joints if name not in signs]
    if missing:
        raise MirrorError(f"no sign for {', '.join(missing)}: give 1 or -1")
    image = {name: name for name in joints} | dict(pairs) | {right: left for left, right in pairs.items()}
    order = list(joints)
    return Mirror(
        permutation=tuple(order.index(image[name]) for name in order), signs=tuple(float(signs[name]) for name in order)
    )


def vector_mirror(kind: Literal["polar", "axial"]) -> Mirror:
    """Of a vector (x forward, y left, z up): polar for velocity, force, gravity and position; axial for angular velocity and torque."""
    return Mirror(permutation=(0, 1, 2), signs=(1.0, -1.0, 1.0) if kind == "polar" else (-1.0, 1.0, -1.0))


def planar_command_mirror() -> Mirror:
    """Of a commanded velocity (forward, left, yaw rate)."""
    return Mirror(permutation=(0, 1, 2), signs=(1.0, -1.0, -1.0))


def unchanged(width: int) -> Mirror:
    """Of numbers that do not see left from right."""
    return Mirror(permutation=tuple(range(width)), signs=(1.0,) * width)


def joined(blocks: Sequence[Mirror]) -> Mirror:
    """Of blocks one after the other."""
    permutation: list[int] = []
    for block in blocks:
        first = len(permutation)
        permutation += [first + i for i in block.permutation]
    return Mirror(permutation=tuple(permutation), signs=tuple(sign for block in blocks for sign in block.signs))


def repeated(block: Mirror, history: int) -> Mirror:
    """Of a block that is kept `history` times, oldest first."""
    return joined([block] * history)


def mirrored(mirror: Mirror, x: torch.Tensor) -> torch.Tensor:
    """Mirror image of `x` (..., width).

    Raises:
        MirrorError: another width.
    """
    if x.shape[-1] != mirror.width:
        raise MirrorError(f"mirror of {mirror.width} elements does not fit a block of {x.shape[-1]}")
    return x[..., list(mirror.permutation)] * torch.tensor(mirror.signs)


Augmentation = Callable[..., tuple[TensorDict | None, torch.Tensor | None]]


def augmentation(spec: MirrorSpec) -> Augmentation:
    """The function that rsl-rl asks for: batch (n, ...) -> (2 n, ...), mirror images last; what is None stays None."""
    mirrors = {"actor": spec.actor, "critic": spec.critic}

    def augment(
        env: object = None, obs: TensorDict | None = None, actions: torch.Tensor | None = None
    ) -> tuple[TensorDict | None, torch.Tensor | None]:
        if obs is not None:
            both = {name: torch.cat([obs[name], mirrored(mirrors[name], obs[name])]) for name in mirrors}
            obs = TensorDict(both, batch_size=[2 * obs.batch_size[0]])
        if actions is not None:
            actions = torch.cat([actions, mirrored(spec.action, actions)])
        return obs, actions

    return augment
