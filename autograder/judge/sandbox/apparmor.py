"""Ubuntu 23.10 and later let AppArmor take from ordinary users what a sandbox is made of: a user namespace may be made,
and nothing can be done in it. A profile for bubblewrap alone doesn't mend that, for the keeper makes one too."""

import os
from pathlib import Path

SETTING = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
WHY = "AppArmor keeps user namespaces from ordinary users, as Ubuntu 23.10 and later have it"
ADVICE = f"Allow them with `sudo sysctl -w kernel.{SETTING.name}=0`, or grade as root, best in a virtual machine."


def restricts() -> bool:
    """Whether that is so here, for this user."""
    try:
        return os.geteuid() != 0 and SETTING.read_text().strip() == "1"
    except OSError:
        return False
