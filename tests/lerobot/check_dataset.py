"""Run by a Python that has lerobot (not isthmus): open a dataset and compare it with what was written.

Usage: python check_dataset.py DATASET_ROOT JOINT_POS.npy
"""

import importlib
import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import torch


def allow_torchvision_without_its_extension() -> None:
    """Declare the operators that torchvision registers, where its compiled part does not fit this torch; none is called here."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    source = (Path(spec.origin).parent / "_meta_registrations.py").read_text()
    library = torch.library.Library("torchvision", "DEF")
    for name in set(re.findall(r'register_(?:meta|fake)\("(?:torchvision::)?(\w+)"', source)):
        library.define(f"{name}(Tensor x) -> Tensor")
    globals()["_library"] = library  # its operators live as long as it does


def main() -> None:
    """Open, read, compare; any difference raises."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        sys.modules.pop("torchvision", None)
        allow_torchvision_without_its_extension()
    # By name: this file is also read where lerobot is not installed.
    LeRobotDataset = importlib.import_module("lerobot.datasets.lerobot_dataset").LeRobotDataset
    dataset_to_policy_features = importlib.import_module("lerobot.datasets.utils").dataset_to_policy_features

    root, joint_pos = Path(sys.argv[1]), np.load(sys.argv[2])
    dataset = LeRobotDataset("isthmus/test", root=root, delta_timestamps={"action": [-0.02, 0.0, 0.02]})
    assert len(dataset) == len(joint_pos), (len(dataset), len(joint_pos))
    for index in range(len(dataset)):
        frame = dataset[index]
        np.testing.assert_array_equal(frame["observation.state"].numpy(), joint_pos[index].astype(np.float32))
        assert frame["action"].shape == (3, joint_pos.shape[1])
        assert frame["task"] == "reach the target"
    first = dataset[0]
    np.testing.assert_array_equal(first["action"][0], first["action"][1])  # before the start: padded
    assert first["action_is_pad"].tolist() == [True, False, False]
    np.testing.assert_allclose(dataset.meta.stats["observation.state"]["mean"], joint_pos.mean(axis=0), rtol=1e-5)
    kinds = {name: feature.type.value for name, feature in dataset_to_policy_features(dataset.meta.features).items()}
    assert [name for name, kind in kinds.items() if kind == "ACTION"] == ["action"], kinds
    assert [bool(row["success"]) for row in dataset.meta.episodes] == [True, False, True]
    print(f"{len(dataset)} frames, {dataset.num_episodes} episodes")


if __name__ == "__main__":
    main()
