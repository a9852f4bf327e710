"""The contract that a run was begun with, as a file beside its configuration: networks mean nothing under another one."""

import json
from pathlib import Path

from isthmus.hardware.structure import FormatError, leaves, structure, unstructure, write_json

from ..contract import Contract
from ..migration import migrated_contract
from .checkpoint import CheckpointError

CONTRACT_FILE = "contract.json"
_SHOWN = 4  # differences in an error


def keep_contract(directory: Path, contract: Contract) -> None:
    """Write what `check_kept_contract` compares with."""
    write_json(directory / CONTRACT_FILE, contract)


def check_kept_contract(directory: Path, contract: Contract) -> None:
    """Refuse a run that was begun with another contract; runs from before there was the file are taken as they are.

    Raises:
        CheckpointError: says what differs.
    """
    path = directory / CONTRACT_FILE
    if not path.is_file():
        return
    try:
        kept = structure(migrated_contract(json.loads(path.read_text())), Contract, source=str(path))
    except (FormatError, OSError, ValueError) as error:
        raise CheckpointError(f"{directory} was trained with a contract of another form: {error}; train anew") from None
    if differences := contract_differences(kept, contract):
        shown = "; ".join(differences[:_SHOWN])
        more = len(differences) - _SHOWN
        raise CheckpointError(
            f"{directory} was trained with another contract for {contract.task!r} than there is now: {shown}"
            f"{f'; and {more} more' if more > 0 else ''}; restore it, or train anew"
        )


def contract_differences(kept: Contract, now: Contract) -> list[str]:
    """Each value in which two contracts differ, as text with its place."""
    before, after = dict(leaves(unstructure(kept))), dict(leaves(unstructure(now)))
    return [
        f"{where} was {before.get(where, 'absent')!r}, is {after.get(where, 'absent')!r}"
        for where in dict.fromkeys([*before, *after])
        if where not in before or where not in after or before[where] != after[where]
    ]


__all__ = ["CONTRACT_FILE", "check_kept_contract", "contract_differences", "keep_contract"]
