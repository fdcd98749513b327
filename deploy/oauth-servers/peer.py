"""What the server scripts share: their flags, a free port, a child process that ends with them."""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

# django_site is there: the tests use it, too.
sys.path.append(os.path.join(
    os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 2, "Tests", "SystemSessionTests", "OAuth", "Peer"))


def flags(**more):
    """--python INTERPRETER --work FOLDER [--lifetime SECONDS] and others with their defaults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--lifetime", type=int, default=12, help="of access tokens, in seconds")
    for name, default in more.items():
        parser.add_argument(f"--{name}", default=default)
    return parser.parse_args()


def in_interpreter(options):
    """Continues in the server's own interpreter, without this folder's parents among the modules."""
    if os.path.abspath(sys.executable) != os.path.abspath(options.python):
        os.execv(options.python, [options.python, "-B", *sys.argv])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(command, folder, port, probe="/", environment=None):
    """Starts a server, says its port once it responds, and ends it with this program."""
    process = subprocess.Popen(
        command, cwd=folder, env={**os.environ, **(environment or {})}, stdout=sys.stderr, stderr=sys.stderr, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    while process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{probe}", timeout=60).read()
            break
        except urllib.error.HTTPError:
            break
        except OSError:
            time.sleep(0.05)
    if process.poll() is not None:
        sys.exit("the server has ended")
    print(f"port {port}", flush=True)
    process.wait()
