"""The picture of `run`: for each part a bar for each proxy, as long as its CPU is to nginx's; the values in a column."""

import datetime
from xml.sax.saxutils import escape

COLOURS = {"Lanyard": "#3b82d6", "nginx": "#5c9e6b", "HAProxy": "#c98a3d", "C proxy": "#9aa5b1", "Envoy": "#b05fa8"}
WIDTH, LEFT, RIGHT, TOP, BAR, GAP = 760, 236, 84, 76, 13, 12

# Pages are light or dark, and so is the picture: by what the reader's system prefers.
STYLE = """<style>
text { font-size: 12px; fill: #1f2328 } .title { font-size: 15px; font-weight: bold } .note { font-size: 11px; fill: #59636e }
.card { fill: #ffffff; stroke: #d1d9e0 } .line { stroke: #59636e }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .note { fill: #9198a1 } .card { fill: #0d1117; stroke: #3d444d } .line { stroke: #9198a1 }
}
</style>"""


def text(x, y, content, kind="", anchor="start"):
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{name}>{escape(content)}</text>'


def draw(scenarios, results):
    """`scenarios`: title: {proxy: microseconds}."""
    names = [name for name in COLOURS if any(name in figures for figures in scenarios.values())]
    base = {title: figures.get("nginx") or figures.get("C proxy") or figures["Lanyard"] for title, figures in scenarios.items()}
    full = max(value / base[title] for title, figures in scenarios.items() for value in figures.values()) * 1.02
    unit = (WIDTH - LEFT - RIGHT) / full
    height = TOP + sum(len(figures) * BAR + GAP for figures in scenarios.values()) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"',
        ' font-family="sans-serif" role="img">', "<title>CPU per request of Lanyard and of other proxies</title>", STYLE,
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        text(16, 26, "CPU per request: the shorter, the cheaper", "title"),
        text(WIDTH - 16, 64, "µs", "note", "end"), text(LEFT + unit, 64, "nginx = 1", "note", "middle"),
    ]
    x = 16
    for name in names:
        parts.append(f'<rect x="{x}" y="38" width="11" height="11" rx="2" fill="{COLOURS[name]}"/>')
        label = f"{name} {results['versions'][name].split('-')[0]}" if results["versions"].get(name) else name
        parts.append(text(x + 16, 48, label))
        x += 34 + 7 * len(label)
    y = TOP
    line = len(parts)
    for title, figures in scenarios.items():
        shown = [name for name in names if name in figures]
        parts.append(text(LEFT - 10, y + len(shown) * BAR / 2 + 4, title, anchor="end"))
        for name in shown:
            length = figures[name] / base[title] * unit
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 2}" rx="1" fill="{COLOURS[name]}"/>')
            parts.append(text(WIDTH - 16, y + BAR - 3, f"{figures[name]:.1f}", anchor="end"))
            y += BAR
        y += GAP
    # Behind the bars.
    parts.insert(line, f'<path class="line" d="M{LEFT + unit:.1f} {TOP - 6}V{y - GAP + 4}" stroke-dasharray="2 3"/>')
    machine, day = results["machine"], datetime.date.fromisoformat(results["date"])
    parts.append(text(16, height - 12, f"{day.day} {day:%B %Y}, {machine['model']}, {machine['cpus']} CPUs, one for the proxy: "
                      "Benchmarks/run", "note"))
    return "\n".join([*parts, "</svg>", ""])
