# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false
"""A mirror image is described once and holds for every block."""

import pytest
import torch
from tensordict import TensorDict

from isthmus.policies.learning.symmetry import (
    Mirror,
    MirrorError,
    MirrorSpec,
    augmentation,
    joined,
    joint_mirror,
    mirrored,
    planar_command_mirror,
    repeated,
    unchanged,
    vector_mirror,
)

JOINTS = [f"{leg}_{part}" for leg in ("FL", "FR", "RL", "RR") for part in ("hip", "thigh", "calf")]
PAIRS = {f"{end}L_{part}": f"{end}R_{part}" for end in "FR" for part in ("hip", "thigh", "calf")}
SIGNS = {name: -1.0 if name.endswith("hip") else 1.0 for name in JOINTS}
QUADRUPED = joint_mirror(JOINTS, PAIRS, SIGNS)


def test_a_quadrupeds_joints_mirror_as_worked_out_by_hand():
    # Front left out to its left by 0.1 becomes front right out to its right: the hip axis points forward on both sides.
    pose = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2])
    expected = torch.tensor([-0.4, 0.5, 0.6, -0.1, 0.2, 0.3, -1.0, 1.1, 1.2, -0.7, 0.8, 0.9])
    torch.testing.assert_close(mirrored(QUADRUPED, pose), expected)
    torch.testing.assert_close(pose @ QUADRUPED.matrix().T, expected)


def test_velocities_mirror_like_the_cross_product_that_relates_them():
    # v = omega x r holds in the mirror too, which a wrong sign in either would break.
    omega, r = torch.randn(50, 3), torch.randn(50, 3)
    polar, axial = vector_mirror("polar"), vector_mirror("axial")
    image = torch.linalg.cross(mirrored(axial, omega), mirrored(polar, r))
    torch.testing.assert_close(image, mirrored(polar, torch.linalg.cross(omega, r)))


def test_a_commanded_turn_to_the_left_becomes_one_to_the_right():
    assert mirrored(planar_command_mirror(), torch.tensor([1.0, 0.5, 0.2])).tolist() == pytest.approx([1.0, -0.5, -0.2])


def test_every_block_mirrored_twice_is_itself():
    block = joined([vector_mirror("axial"), repeated(QUADRUPED, 3), planar_command_mirror(), unchanged(4)])
    assert block.width == 3 + 36 + 3 + 4
    x = torch.randn(8, block.width)
    assert torch.equal(mirrored(block, mirrored(block, x)), x)
    torch.testing.assert_close(block.matrix() @ block.matrix(), torch.eye(block.width))


def test_history_mirrors_each_moment_on_its_own():
    x = torch.randn(2, 12)
    both = mirrored(repeated(QUADRUPED, 2), torch.cat([x[0], x[1]]))
    torch.testing.assert_close(both, torch.cat([mirrored(QUADRUPED, x[0]), mirrored(QUADRUPED, x[1])]))


def test_augmentation_appends_mirror_images_and_leaves_none_alone():
    spec = MirrorSpec(actor=vector_mirror("polar"), critic=unchanged(2), action=QUADRUPED)
    augment = augmentation(spec)
    obs = TensorDict({"actor": torch.randn(4, 3), "critic": torch.randn(4, 2)}, batch_size=[4])
    actions = torch.randn(4, 12)
    both, more = augment(env=None, obs=obs, actions=actions)
    assert both.batch_size == torch.Size([8])
    torch.testing.assert_close(both["actor"][:4], obs["actor"])
    torch.testing.assert_close(both["actor"][4:, 1], -obs["actor"][:, 1])
    torch.testing.assert_close(more[4:], mirrored(QUADRUPED, actions))
    assert augment(env=None, obs=None, actions=actions)[0] is None
    assert augment(env=None, obs=obs, actions=None)[1] is None


@pytest.mark.parametrize(
    ("permutation", "signs", "message"),
    [
        ((0, 0), (1.0, 1.0), "permutation of 0..1"),
        ((0, 1), (1.0,), "2 signs"),
        ((1, 2, 0), (1.0, 1.0, 1.0), "element 0 comes from 1, which comes from 2"),
        ((1, 0), (1.0, -1.0), "equal in a pair"),
        ((0,), (0.5,), "each 1 or -1"),
    ],
)
def test_what_is_no_mirror_is_refused(permutation, signs, message):
    with pytest.raises(MirrorError, match=message):
        Mirror(permutation=permutation, signs=signs)


def test_joint_names_are_checked():
    with pytest.raises(MirrorError, match="unknown joint 'XL'; the robot has L, R"):
        joint_mirror(["L", "R"], {"XL": "R"}, {"L": 1.0, "R": 1.0})
    with pytest.raises(MirrorError, match="no sign for R"):
        joint_mirror(["L", "R"], {"L": "R"}, {"L": 1.0})
    with pytest.raises(MirrorError, match="does not fit a block of 3"):
        mirrored(QUADRUPED, torch.zeros(1, 3))
