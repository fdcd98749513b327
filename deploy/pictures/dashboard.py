"""The panels of deploy/prometheus/dashboard.json, drawn from what Prometheus computes under a load."""

import glob
import html
import http.client
import json
import math
import os
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import programs

SECONDS, STEP, WINDOW = 90, 1, "10s"
COLUMN, ROW, GAP, TITLE = 44, 17, 6, 34
# The rows of the dashboard that are drawn: the first two, which answer most questions.
ROWS = ["Sessions", "Requests"]
COLOURS = ["#73bf69", "#f2cc0c", "#5794f2", "#ff780a", "#f2495c", "#b877d9", "#37872d", "#8ab8ff"]

CONFIGURATION = """\
listeners: [{address: "127.0.0.1:7400"}]
health: {address: "127.0.0.1:7401"}
admin: {address: "unix:/run/demo/admin.sock"}
identities:
  demo: {app_services: {app_id: demo-abcde, base_url: "http://127.0.0.1:7490"}}
users:
  alice: {identity: demo, login: {email_password: {email: alice@example.com, password_file: alice.password}}}
  bob: {identity: demo, login: {email_password: {email: bob@example.com, password_file: bob.password}}}
routes:
  - {name: orders, match: {path: /protected/orders}, upstream: "http://127.0.0.1:7490", user: alice}
  - {name: stock, match: {path: /stock}, upstream: "http://127.0.0.1:9000", user: bob}
"""


def picture(running):
    prometheus = find_prometheus(running)
    running.start_services("--access-token-lifetime", "30s")
    running.write("lanyard.yaml", CONFIGURATION)
    running.start("lanyard", "run", log="lanyard.log")
    running.shell("lanyard wait")
    port = programs.free_ports(1)[0]
    running.write("prometheus.yml", f"""\
global: {{scrape_interval: {STEP}s}}
scrape_configs: [{{job_name: lanyard, static_configs: [{{targets: ["127.0.0.1:7401"]}}]}}]
""")
    running.start(
        prometheus, "--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}",
        log="prometheus.log")
    load(running)
    end = time.time()
    return running.outside(draw(panels(), lambda expression, is_instant: query(port, expression, end, is_instant)))


def find_prometheus(running):
    """The program of the path, else of Debian's package, without the service that it would start."""
    for folder in ["", os.path.join(programs.ROOT, ".build-roots/prometheus/usr/bin")]:
        found = shutil.which("prometheus", path=folder or None)
        if found:
            return found
    subprocess.run(["apt-get", "-q", "download", "prometheus"], cwd=running.folder, check=True)
    package = glob.glob(running.file("prometheus_*.deb"))[0]
    subprocess.run(["dpkg-deb", "-x", package, running.file("root")], check=True)
    return running.file("root/usr/bin/prometheus")


def load(running):
    """Two kinds of requests on kept connections. All tokens expire early once, and bob is logged out for a while."""
    end = time.monotonic() + SECONDS

    def client(path, pause):
        connection = http.client.HTTPConnection("127.0.0.1", running.ports["lanyard"], timeout=programs.LIMIT)
        while time.monotonic() < end:
            try:
                connection.request("GET", path)
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                connection.close()
            time.sleep(pause)
        connection.close()

    clients = [threading.Thread(target=client, args=each) for each in
               [("/protected/orders/7", 0.02)] * 3 + [("/stock/3", 0.05)] * 2 + [("/nothing", 0.5)]]
    for each in clients:
        each.start()
    for moment, event in [
        (0.3, lambda: running.control("POST", "tokens/expire")),
        (0.5, lambda: running.shell("lanyard logout bob")),
        (0.7, lambda: running.shell("lanyard login bob --email bob@example.com --password-file bob.password")),
    ]:
        time.sleep(max(0, end - SECONDS * (1 - moment) - time.monotonic()))
        event()
    for each in clients:
        each.join()


def query(port, expression, end, is_instant):
    """Labels and points (seconds since the start, value) of each series."""
    for name, value in [("$__rate_interval", WINDOW), ("$job", "lanyard"), ("$instance", ".*")]:
        expression = expression.replace(name, value)
    if is_instant:
        path = "query?" + urllib.parse.urlencode({"query": expression, "time": end})
    else:
        path = "query_range?" + urllib.parse.urlencode({"query": expression, "start": end - SECONDS, "end": end, "step": STEP})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=programs.LIMIT) as response:
        result = json.load(response)["data"]["result"]
    for series in result:
        points = [series["value"]] if is_instant else series["values"]
        points = [(float(moment) - end + SECONDS, float(value)) for moment, value in points]
        yield series["metric"], [point for point in points if math.isfinite(point[1])]


def panels():
    """The panels of the rows that are drawn."""
    with open(os.path.join(programs.ROOT, "deploy/prometheus/dashboard.json"), encoding="utf-8") as file:
        row = None
        for panel in json.load(file)["panels"]:
            row = panel["title"] if panel["type"] == "row" else row
            if row in ROWS:
                yield panel


def written(value, unit):
    if unit == "s" and value < 1:
        return f"{value * 1000:.3g} ms"
    if unit == "s" and value >= 7200:
        return f"{value / 86400:.3g} d" if value >= 172800 else f"{value / 3600:.3g} h"
    return f"{value:.3g}" + {"s": " s", "reqps": "/s", "cps": "/s"}.get(unit, "")


def draw(shown, ask):
    parts, bottom = [], 0
    for panel in shown:
        place = panel["gridPos"]
        x, y = place["x"] * COLUMN, place["y"] * ROW
        width, height = place["w"] * COLUMN - GAP, place["h"] * ROW - GAP
        bottom = max(bottom, y + height)
        title = html.escape(panel["title"])
        if panel["type"] == "row":
            parts.append(f'<text x="{x}" y="{y + 13}" class="r">{title}</text>')
            continue
        unit = panel["fieldConfig"]["defaults"].get("unit")
        series = [
            (legend(target, labels), points) for target in panel["targets"]
            for labels, points in ask(target["expr"], panel["type"] == "stat") if points]
        # Rates of what did not happen are not drawn.
        if unit in ("cps", "reqps"):
            series = [each for each in series if max(value for _, value in each[1]) > 0]
        inner = stat(series, unit, width, height) if panel["type"] == "stat" else chart(series, unit, width, height)
        parts.append(
            f'<g transform="translate({x},{y})"><rect width="{width}" height="{height}" rx="3" fill="#181b1f"/>'
            f'<text x="8" y="18" class="t">{title}</text>{inner}</g>')
    width, height = 24 * COLUMN + GAP, bottom + 2 * GAP
    box = f'viewBox="{-GAP} {-GAP} {width} {height}" width="{width}" height="{height}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {box} role="img">
<title>Two rows of the dashboard, under a load of {SECONDS} s</title>
<style>
text {{ font: 10px system-ui, "DejaVu Sans", sans-serif; fill: #9fa7b3 }} polyline {{ fill: none; stroke-width: 1.5 }}
.t {{ font-size: 12px; font-weight: 600; fill: #d8d9da }} .r {{ font-size: 13px; fill: #d8d9da }} .v {{ font-size: 30px; fill: #73bf69 }}
</style>
<rect x="{-GAP}" y="{-GAP}" width="100%" height="100%" fill="#0b0c0e"/>
""" + "\n".join(parts) + "\n</svg>\n"


def legend(target, labels):
    text = target.get("legendFormat", "")
    for name in ["user", "state", "result", "provider", "reason", "route", "code_class", "instance"]:
        text = text.replace("{{" + name + "}}", labels.get(name, ""))
    return text


def stat(series, unit, width, height):
    value = written(series[0][1][0][1], unit) if series else "none"
    return f'<text x="{width / 2:.0f}" y="{height / 2 + 20:.0f}" class="v" text-anchor="middle">{value}</text>'


def chart(series, unit, width, height):
    left, right, top = 48, width - 8, TITLE
    # The legend has those that say something first.
    names = sorted(series, key=lambda each: -max(value for _, value in each[1]))[:6]
    bottom = height - 24 - 13 * math.ceil(max(len(names), 1) / 2)
    highest = max([value for _, points in series for _, value in points] or [0]) or 1
    found = []
    for share in [0, 0.5, 1]:
        y = bottom - (bottom - top) * share
        found.append(f'<path d="M{left} {y:.0f}H{right}" stroke="#2c3235"/>')
        found.append(f'<text x="{left - 4}" y="{y + 3:.0f}" text-anchor="end">{written(highest * share, unit)}</text>')
    for moment in [0, SECONDS / 2, SECONDS]:
        x = left + (right - left) * moment / SECONDS
        found.append(f'<text x="{x:.0f}" y="{bottom + 13:.0f}" text-anchor="middle">{moment:.0f} s</text>')
    for index, (name, points) in enumerate(names):
        colour = COLOURS[index % len(COLOURS)]
        for run in runs(points):
            line = " ".join(
                f"{left + (right - left) * moment / SECONDS:.0f},{bottom - (bottom - top) * value / highest:.0f}" for moment, value in run)
            found.append(f'<polyline points="{line}" stroke="{colour}"/>')
        x, y = 10 + (index % 2) * (width / 2 - 6), bottom + 28 + 13 * (index // 2)
        found.append(f'<path d="M{x:.0f} {y - 3:.0f}h10" stroke="{colour}" stroke-width="2"/>')
        found.append(f'<text x="{x + 14:.0f}" y="{y:.0f}">{html.escape(name)}</text>')
    if not series:
        found.append(f'<text x="{width / 2:.0f}" y="{(top + bottom) / 2:.0f}" text-anchor="middle">nothing</text>')
    return "".join(found)


def runs(points):
    """Points without a gap between them."""
    run = []
    for point in points:
        if run and point[0] - run[-1][0] > 1.5 * STEP:
            yield run
            run = []
        run.append(point)
    if run:
        yield run
