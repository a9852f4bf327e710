"""What to do when a user may not open a device: whose it is decides."""

import grp
import os
import pwd
import stat
from pathlib import Path


def permission_remedy(device: str) -> str:
    """What gives this user the right to read and write a device; names its group and the command."""
    try:
        info = Path(device).stat()
    except OSError as error:
        return f"its owner cannot be told ({error.strerror}); ask the administrator of this computer"
    group, user = _group_name(info.st_gid), _user_name(os.geteuid())
    if info.st_mode & (stat.S_IRGRP | stat.S_IWGRP) != stat.S_IRGRP | stat.S_IWGRP:
        return (
            f"it belongs to {_user_name(info.st_uid)}:{group} with mode {stat.S_IMODE(info.st_mode):04o}, so that no group gets in: "
            f"sudo chgrp dialout {device} && sudo chmod 0660 {device}, or a udev rule that does so"
        )
    if info.st_gid in (os.getegid(), *os.getgroups()):
        return f"you are in its group {group}, so something else forbids it: in a container give it --device {device}"
    if user in _members(info.st_gid):
        return f"you are in its group {group}, but this login does not know yet: log out and in again"
    return f"it belongs to the group {group}: sudo usermod -aG {group} {user}, then log out and in again"


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _members(gid: int) -> list[str]:
    try:
        return grp.getgrgid(gid).gr_mem
    except KeyError:
        return []
