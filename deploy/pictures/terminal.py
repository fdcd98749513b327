"""A terminal in which the walk of README.md runs."""

import html
import re

import programs

COLUMNS, LINE_HEIGHT, CHARACTER_WIDTH, MARGIN = 120, 20, 8.43, 18

CONFIGURATION = """\
listeners: [{address: "127.0.0.1:7400"}]
health: {address: "127.0.0.1:7401"}
admin: {address: "unix:/run/demo/admin.sock"}
identities:
  demo: {oauth2: {issuer: "http://127.0.0.1:7490/oauth", client_id: orders, client_secret_file: client.secret}}
users:
  robot: {identity: demo, login: {client_credentials: {}}}
routes:
  - {name: orders, match: {path: /orders}, upstream: "http://127.0.0.1:9000"}
"""

# What is typed. `lanyard run` is started beside the shell, because it stays.
COMMANDS = [
    "cat lanyard.yaml",
    "lanyard check --online --login",
    "lanyard run 2>lanyard.log & lanyard wait",
    "curl -s http://127.0.0.1:9000/orders                     # the API itself",
    "curl -s http://127.0.0.1:7400/orders | cut -c1-58        # the API behind Lanyard",
    "lanyard status",
    "lanyard logout",
    "curl -s -o /dev/null -w '%{http_code}\\n' http://127.0.0.1:7400/orders",
    "lanyard health --ready",
    "lanyard shutdown",
]


def picture(running):
    return draw(list(run(running)))


def run(running):
    """Each command with the lines that it prints."""
    running.write("client.secret", "correct-horse", 0o600)
    running.start_services("--oauth", "--oauth-client", "orders:client.secret")
    # A line that would be wider is wrapped by the command.
    running.environment["COLUMNS"] = str(COLUMNS)
    running.write("lanyard.yaml", CONFIGURATION)
    for command in COMMANDS:
        if command.startswith("lanyard run "):
            running.start("lanyard", "run", log="lanyard.log")
            printed = running.shell("lanyard wait")
        else:
            printed = running.shell(command)
        yield command, [settled(line) for line in printed.splitlines()]


def settled(line):
    """The line without what differs between two runs: times, and the share of a second in a clock's difference."""
    for pattern, text in [
        (r"up \d+ (?:ms|s)", "up 1 s"),
        (r"\b\d+ s ago", "1 s ago"),
        (r"\bIN \d+ S\b", "IN 1 S"),
        (r"is [+-][0-9.]+ s;", "is +0.3 s;"),
        (r"descriptors: \d+ of \d+", "descriptors: 53 of 1024"),
    ]:
        line = re.sub(pattern, text, line)
    return line


def wrapped(line):
    return [line[start:start + COLUMNS] for start in range(0, len(line), COLUMNS)] or [""]


def draw(steps):
    lines, moment = [], 0.5
    for command, printed in steps:
        for index, part in enumerate(wrapped("$ " + command)):
            lines.append((moment, "command" if index == 0 else "more", part))
        moment += 0.6 + len(command) * 0.02
        for line in printed:
            for part in wrapped(line):
                lines.append((moment, "printed", part))
        moment += 0.8 + len(printed) * 0.15
    width, height = COLUMNS * CHARACTER_WIDTH + 2 * MARGIN, len(lines) * LINE_HEIGHT + 2 * MARGIN
    rows = []
    for number, (moment, kind, text) in enumerate(lines):
        y = MARGIN + (number + 0.75) * LINE_HEIGHT
        shown = html.escape(text, quote=False)
        # A tag may have a line break before its end, where the text may have none: so no line of the file is wide.
        if kind == "command":
            shown = '<tspan class="p">$</tspan\n>' + shown[1:]
        name = ' class="c"' if kind != "printed" else ""
        rows.append(f'<text x="{MARGIN}" y="{y:.0f}"{name} style="animation-delay:{moment:.2f}s"\n>{shown}</text>')
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}"
 width="{width:.0f}" height="{height}" role="img" xml:space="preserve">
<title>Lanyard in a terminal: the API gets no token by itself, and one behind Lanyard</title>
<style>
text {{ font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #c9d1d9;
 animation: show 0.01s backwards }}
.c {{ fill: #ffffff }} .p {{ fill: #7ee787 }}
@keyframes show {{ from {{ opacity: 0 }} to {{ opacity: 1 }} }}
@media (prefers-reduced-motion: reduce) {{ text {{ animation: none }} }}
</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
""" + "\n".join(rows) + "\n</svg>\n"
