import numpy as np
import pytest

from isthmus.policies.trajectory import TrajectoryPolicy

JOINTS = ("a", "b")


def play(policy: TrajectoryPolicy, executed: np.ndarray, ticks: int) -> np.ndarray:
    path = []
    for _ in range(ticks):
        executed = policy.act({"joint_target": executed}).joint_target
        path.append(executed)
    return np.array(path)


def test_a_trajectory_is_approached_at_its_speed_played_row_by_row_and_kept():
    policy = TrajectoryPolicy(joint_names=JOINTS, period_ns=20_000_000, approach_speed=0.5)
    targets = np.array([[1.0, -0.5], [1.1, -0.4], [1.2, -0.3]])
    policy.load(targets)
    start = np.array([0.95, -0.5])
    assert policy.duration_ticks(start) == 4 + 3  # 0.05 rad in steps of 0.01 rad: four points between
    path = play(policy, start, 9)
    np.testing.assert_allclose(np.diff([start[0], *path[:5, 0]]), 0.01)
    np.testing.assert_array_equal(path[4:7], targets)
    np.testing.assert_array_equal(path[7:], targets[[2, 2]])
    assert policy.done
    policy.reset()
    assert not policy.done
    np.testing.assert_array_equal(play(policy, targets[0], 1)[0], targets[0])


def test_without_targets_it_holds_what_is_executed():
    policy = TrajectoryPolicy(joint_names=JOINTS, period_ns=20_000_000)
    np.testing.assert_array_equal(play(policy, np.array([0.3, 0.4]), 3), [[0.3, 0.4]] * 3)


def test_what_was_loaded_cannot_be_changed_from_outside():
    policy = TrajectoryPolicy(joint_names=JOINTS, period_ns=20_000_000)
    targets = np.zeros((2, 2))
    policy.load(targets)
    targets[:] = 9.0
    assert (play(policy, np.zeros(2), 2) == 0.0).all()


@pytest.mark.parametrize(
    ("targets", "text"),
    [
        (np.zeros((3, 5)), r"\(3, 5\), expected \(T, 2\)"),
        (np.zeros((0, 2)), "T > 0"),
        (np.array([[0.0, np.inf]]), "finite"),
    ],
)
def test_a_trajectory_that_cannot_be_played_is_refused(targets: np.ndarray, text: str):
    with pytest.raises(ValueError, match=text):
        TrajectoryPolicy(joint_names=JOINTS, period_ns=20_000_000).load(targets)
