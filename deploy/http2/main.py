"""`deploy/check-http2`: HTTP/2 towards clients, held against docs/reference and RFC 9113 from outside.

A line for each row; of a failed one also what was expected and what was seen. The last line says `N passed, N failed`.
"""

import argparse
import importlib
import os
import shutil
import sys
import tempfile
import time
import traceback

from peers import PEERS
from rows import PATIENCE, ROWS, SHORT_PATIENCE, Failure, Skipped, waits
from servers import SERVERS
from upstream import Upstream

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODULES = [
    "basics", "malformed", "lengths", "trailers", "interim", "windows", "stalls", "framing", "compression", "tearing", "limits", "floods",
    "life", "clients", "clients_grpc", "clients_node", "clients_browser", "websocket", "websocket_bytes", "websocket_ends",
    "upstream_bridges",
    "upstream_fields", "upstream_malformed", "upstream_sharing", "upstream_ends", "upstream_windows", "upstream_life",
    "upstream_grpc", "upstream_reads", "upstream_reuse", "upstream_times", "upstream_random", "upstream_honest", "upstream_mixed",
    "upstream_mended", "mended", "rotation"]
# As deploy/checks.sh has it.
NOTHING_TRIED = 77


def options():
    parser = argparse.ArgumentParser(prog="deploy/check-http2")
    parser.add_argument("--peer", choices=sorted(SERVERS), default="lanyard", help="the program under test; lanyard by default")
    parser.add_argument("--program", metavar="FILE", help="its file, in place of .build/debug/lanyard or the nghttpx on the PATH")
    parser.add_argument("--filter", metavar="TEXT", action="append", help="only rows with this text in name, rule or title")
    parser.add_argument("--quick", action="store_true", help="only the rows of the gate")
    parser.add_argument("--list", action="store_true", help="prints the rows")
    parser.add_argument("--strict", action="store_true", help="counts what is known to differ in nghttpx as failed")
    chosen = parser.parse_args()
    if not chosen.program:
        found = shutil.which("nghttpx") if chosen.peer == "nghttpx" else os.path.join(
            ROOT, os.environ.get("LANYARD_BINARIES", ".build/debug"), "lanyard")
        chosen.program = found or parser.error("nghttpx is not installed")
    return chosen


def run(row, server):
    """Returns the fault of a row, or nothing."""
    try:
        row.run(server)
        if server.upstream.faults:
            return f"at the upstream: {'; '.join(server.upstream.faults)}"
        if server.process.poll() is not None and row.own is None:
            return f"the server has ended with {server.process.returncode}"
    except Failure as failure:
        return str(failure)
    except Skipped:
        raise
    except Exception as error:  # A fault of a row is a failed row, and the next ones still run.
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})"
    finally:
        server.upstream.faults.clear()
        server.end_connections()
    return None


def main():
    chosen = options()
    for module in MODULES:
        importlib.import_module(module)
    for row in ROWS:
        row.peer = row.peer or next((text for names, text in PEERS if row.name.startswith(names)), None)
    rows = [row for row in ROWS if not chosen.filter or any(
        text in f"{row.name} {row.rule} {row.title}" for text in chosen.filter)]
    rows = [row for row in rows if row.quick or not chosen.quick]
    if chosen.list:
        print("\n".join(f"{row.rule:6} {row.name}: {row.title}" for row in rows))
        return 0
    passed = failed = differing = 0
    skipped, tools = 0, set()
    with tempfile.TemporaryDirectory(prefix="lanyard-http2-") as folder:
        upstream, kind, shared = Upstream(), SERVERS[chosen.peer], None
        for row in rows:
            server = None
            started = time.monotonic()
            is_known = row.peer and chosen.peer == "nghttpx"
            try:
                waits["seconds"] = PATIENCE
                if row.own is not None:
                    server = kind(chosen.program, upstream, folder, row.own)
                elif shared is None or shared.process.poll() is not None:
                    shared = kind(chosen.program, upstream, folder)
                waits["seconds"] = SHORT_PATIENCE if is_known else PATIENCE
                fault = run(row, server or shared)
            except Skipped as reason:
                skipped += 1
                tools |= {reason.tool} - {None}
                print(f"SKIP   {row.rule:6} {row.name}: {reason}", flush=True)
                continue
            except (Failure, OSError) as failure:
                fault = str(failure)
            finally:
                if server:
                    server.stop()
            seconds = time.monotonic() - started
            line = f"{row.rule:6} {row.name}: {row.title}" + (f" ({seconds:.1f} s)" if seconds >= 1 else "")
            if fault is None:
                passed += 1
                note = f"\n       passes although {chosen.peer} is said to differ: {row.peer}" if is_known else ""
                print(f"ok     {line}{note}", flush=True)
            elif is_known and not chosen.strict:
                differing += 1
                print(f"PEER   {line}\n       peer differs: {row.peer}\n       {fault}", flush=True)
            else:
                failed += 1
                print(f"FAULT  {line}\n       {fault}", flush=True)
        if shared:
            shared.stop()
    if differing:
        print(f"{differing} rows in which {chosen.peer} is known to differ")
    if skipped:
        print(f"{skipped} rows did not run" + (f", missing tools: {' '.join(sorted(tools))}" if tools else ""))
    print(f"{passed} passed, {failed} failed")
    if not passed + failed + differing and skipped:
        return NOTHING_TRIED
    return 1 if failed or not passed + differing else 0


sys.exit(main())
