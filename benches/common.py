"""What the measurements in Python have in common; common.bash says where it lies."""

import os
import subprocess
import sys
import time

_NULL = os.open(os.devnull, os.O_RDWR)


def environment(home):
    """The variables of every call."""
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "GIT_CONFIG_NOSYSTEM": "1"}


def call(arguments, folder, home):
    """Milliseconds from before the process is made until after its end."""
    os.chdir(folder)
    variables = environment(home)
    actions = [(os.POSIX_SPAWN_DUP2, _NULL, 0), (os.POSIX_SPAWN_DUP2, _NULL, 1)]
    start = time.perf_counter_ns()
    process = os.posix_spawnp(arguments[0], arguments, variables, file_actions=actions)
    _, status = os.waitpid(process, 0)
    took = (time.perf_counter_ns() - start) / 1e6
    if status != 0:
        sys.exit(f"{arguments}: status {os.waitstatus_to_exitcode(status)}")
    return took


def commit_all(folder, home):
    """Makes a repository of a folder, with everything in it committed."""
    git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "core.fsync=none"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "files"]):
        subprocess.run([*git, *arguments], cwd=folder, env=environment(home), check=True)
