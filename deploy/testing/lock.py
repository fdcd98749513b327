"""One run of deploy/test, deploy/faults or deploy/jitter at a time in one folder."""

import fcntl
import os
import sys


# Names the process that holds the lock, for the programs that it starts.
HOLDER = "LANYARD_TEST_HOLDER"


def acquire(path):
    """Returns a file that is locked until this process ends, however it ends. None, and a message, if another process has it. What a
    process with the lock starts shares the lock."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    file = open(path, "a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip()
        if holder and holder == os.environ.get(HOLDER):
            return file
        print(f"Tests run already in this folder (process {holder or 'unknown'}): wait for their end, or end them.", file=sys.stderr)
        return None
    file.truncate(0)
    file.write(f"{os.getpid()}")
    file.flush()
    os.environ[HOLDER] = f"{os.getpid()}"
    return file
