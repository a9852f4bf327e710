"""Copies of recorded policies, to be spoilt."""

import io
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import yaml
from parity import Recorded
from recorded_b import RECORDED

from isthmus.policies.importers.registry import IMPORTERS

EVERY = {f"{r.importer}-{r.rows.parent.name}-{r.rows.stem}": r for r in RECORDED}
RL_SAR, GYM, KINFER, APP = (
    EVERY[n]
    for n in ("rl_sar-walk-rows", "unitree_rl_gym-unitree_rl_gym-real", "kinfer-kinfer-rows", "efferent-efferent-walk")
)
HOLOSOMA = EVERY["holosoma-history-rows"]
MOTRIX, BARE = EVERY["motrix-motrix-walk"], EVERY["bare-bare-walk"]


def load(recorded: Recorded, path: Path, **facts: object) -> None:
    IMPORTERS[recorded.importer].load(path, replace(recorded.facts, **facts))


def copied(recorded: Recorded, folder: Path) -> Path:
    """The policy's folder with what lies beside and above it, to be changed."""
    source = recorded.path if recorded.path.is_dir() else recorded.path.parent
    shutil.copytree(source, folder / source.name)
    for beside in source.parent.glob("*.yaml"):
        shutil.copy(beside, folder)
    return folder / source.name / ("" if recorded.path.is_dir() else recorded.path.name)


def rewritten_archive(path: Path, member: str, change: Callable[[bytes], bytes]) -> None:
    if path.suffix == ".kinfer":
        with tarfile.open(path) as archive:
            members = {info.name: archive.extractfile(info).read() for info in archive.getmembers()}  # pyright: ignore[reportOptionalMemberAccess]
        members[member] = change(members[member])
        with tarfile.open(path, "w:gz") as archive:
            for name, content in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        return
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members[member] = change(members[member])
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def changed_yaml(path: Path, change: Callable[[dict], object]) -> None:  # pyright: ignore[reportMissingTypeArgument]
    data = yaml.safe_load(path.read_text())
    change(data)
    path.write_text(yaml.safe_dump(data))


def first(data: dict) -> dict:  # pyright: ignore[reportMissingTypeArgument]
    return next(iter(data.values()))
