"""The picture of `run`: for each scenario a bar for each proxy, as long as its CPU is to that of the first peer."""

from xml.sax.saxutils import escape

COLOURS = {"C proxy": "#9aa5b1", "nginx": "#5c9e6b", "HAProxy": "#c98a3d", "Lanyard": "#2f6fb5"}
WIDTH, LEFT, RIGHT, TOP, BAR, GAP = 760, 240, 90, 54, 11, 9
FULL = 1.6


def text(x, y, content, size=12, colour="#222", anchor="start"):
    style = f'font-size="{size}" fill="{colour}" text-anchor="{anchor}"'
    return f'<text x="{x:.0f}" y="{y:.0f}" {style}>{escape(content)}</text>'


def draw(scenarios, results):
    """`scenarios`: title: {proxy: microseconds}. A bar that would be longer than the picture is cut."""
    names = [name for name in COLOURS if any(name in figures for figures in scenarios.values())]
    unit = (WIDTH - LEFT - RIGHT) / FULL
    height = TOP + sum(len(figures) * BAR + GAP for figures in scenarios.values()) + 26
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        text(12, 20, "CPU per request, beside nginx's; µs behind the bars; shorter is cheaper", 14),
    ]
    x = 12
    for name in names:
        parts.append(f'<rect x="{x}" y="30" width="10" height="10" fill="{COLOURS[name]}"/>')
        parts.append(text(x + 15, 39, name))
        x += 100
    y = TOP
    for title, figures in scenarios.items():
        base = figures.get("nginx") or figures.get("C proxy") or figures["Lanyard"]
        parts.append(text(LEFT - 8, y + len(figures) * BAR / 2 + 4, title, anchor="end"))
        for name in [name for name in names if name in figures]:
            length = min(figures[name] / base, FULL) * unit
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 1}" fill="{COLOURS[name]}"/>')
            parts.append(text(LEFT + length + 4, y + BAR - 2, f"{figures[name]:.1f}", 10))
            y += BAR
        y += GAP
    x = f"{LEFT + unit:.1f}"
    parts.append(f'<line x1="{x}" y1="{TOP - 4}" x2="{x}" y2="{y - GAP + 4}" stroke="#5c9e6b" stroke-dasharray="2 3"/>')
    machine = results["machine"]
    parts.append(text(12, height - 8, f"{results['date']}, {machine['model']}, {machine['cpus']} CPUs, "
                      f"Linux {machine['kernel']}: Benchmarks/run", 10, "#666"))
    return "\n".join([*parts, "</svg>", ""])
