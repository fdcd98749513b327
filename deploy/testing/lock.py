"""One run of deploy/test at a time in one folder."""

import fcntl
import os
import sys


def acquire(path):
    """Returns a file that is locked until this process ends, however it ends. None, and a message, if another process has it."""
    file = open(path, "a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        print(f"deploy/test runs already in this folder (process {file.read().strip() or 'unknown'}): wait for its end, or end it.",
              file=sys.stderr)
        return None
    file.truncate(0)
    file.write(f"{os.getpid()}")
    file.flush()
    return file
