"""A small picture maker for the examples: curves and points come in as lists of numbers, an SVG file goes out."""

import math

COLOURS = ("#1f6feb", "#d1570b", "#1a7f37", "#8250df", "#bf3989", "#57606a")
WIDTH, HEIGHT, EDGE = 640, 360, 48


def _ticks(low, high):
    """About five round numbers between low and high."""
    span = high - low
    power = 10.0 ** math.floor(math.log10(span))
    step = next(power * f for f in (0.2, 0.5, 1, 2) if span / (power * f) <= 6)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def save(path, title, curves=(), points=(), bands=(), x_label="", y_label=""):
    """curves and points: (name, xs, ys); bands: (name, xs, lows, highs)."""
    xs = [x for item in (*curves, *points, *bands) for x in item[1]]
    ys = [y for item in (*curves, *points, *bands) for part in item[2:] for y in part]
    x0, x1, y0, y1 = min(xs), max(xs), min(ys), max(ys)
    x1, y1 = x1 + (x1 == x0), y1 + (y1 == y0)
    y0, y1 = y0 - 0.05 * (y1 - y0), y1 + 0.05 * (y1 - y0)

    def at(x, y):
        return f"{EDGE + (x - x0) / (x1 - x0) * (WIDTH - 2 * EDGE):.1f},{HEIGHT - EDGE - (y - y0) / (y1 - y0) * (HEIGHT - 2 * EDGE):.1f}"

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">']
    out.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/><text x="{EDGE}" y="24" font-size="14">{title}</text>')
    for x in _ticks(x0, x1):
        px, py = at(x, y0).split(",")
        out.append(f'<path d="M{px},{py}V{EDGE}" stroke="#eaeef2"/><text x="{px}" y="{float(py) + 14}" text-anchor="middle">{x:g}</text>')
    for y in _ticks(y0, y1):
        px, py = at(x0, y).split(",")
        out.append(f'<path d="M{px},{py}H{WIDTH - EDGE}" stroke="#eaeef2"/><text x="{float(px) - 4}" y="{float(py) + 4}" text-anchor="end">{y:g}</text>')
    out.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 10}" text-anchor="middle">{x_label}</text><text x="14" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 14 {HEIGHT / 2})">{y_label}</text>')
    legend = []
    for k, (name, x, low, high) in enumerate(bands):
        corners = [at(a, b) for a, b in zip(x, low)] + [at(a, b) for a, b in reversed(list(zip(x, high)))]
        out.append(f'<polygon points="{" ".join(corners)}" fill="{COLOURS[k]}" opacity="0.18"/>')
        legend.append((name, COLOURS[k]))
    for k, (name, x, y) in enumerate(curves):
        out.append(f'<polyline points="{" ".join(map(at, x, y))}" fill="none" stroke="{COLOURS[k % 6]}" stroke-width="1.8"/>')
        legend.append((name, COLOURS[k % 6]))
    for k, (name, x, y) in enumerate(points):
        colour = COLOURS[(k + (0 if len(points) > 1 else 5)) % 6]
        out += [f'<circle cx="{p[0]}" cy="{p[1]}" r="2.4" fill="{colour}" opacity="0.7"/>' for p in (at(a, b).split(",") for a, b in zip(x, y))]
        legend.append((name, colour))
    spans = "".join(f'<tspan dx="{0 if k == 0 else 14}" fill="{colour}">{name}</tspan>' for k, (name, colour) in enumerate(legend))
    out.append(f'<text x="{EDGE}" y="40">{spans}</text>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*out, "</svg>"]) + "\n")
