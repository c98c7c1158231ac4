"""A small picture maker for the examples: curves, points and bands come in as lists of numbers, an SVG file goes out."""

import math

COLOURS = ("#1f6feb", "#d1570b", "#1a7f37", "#8250df", "#bf3989", "#57606a")
WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 64, 52
LETTER = 6.4  # how wide one is, about


def _ticks(low, high):
    """About five round numbers between low and high."""
    span = high - low
    power = 10.0 ** math.floor(math.log10(span))
    step = next(power * f for f in (0.2, 0.5, 1, 2) if span / (power * f) <= 6)
    return [(k * step, f"{k * step:g}") for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _decades(low, high):
    """Powers of ten between 10**low and 10**high, and halves of decades where there are few."""
    whole = [(k, f"{10.0**k:g}") for k in range(math.ceil(low), math.floor(high) + 1)]
    if len(whole) > 2:
        return whole
    return sorted(whole + [(k + math.log10(3), f"{3 * 10.0**k:g}") for k in range(math.floor(low), math.floor(high) + 1) if low <= k + math.log10(3) <= high])


def _legend(items):
    """Marks and names in one row."""
    out, x, y = [], LEFT, 46
    for name, colour, mark in items:
        shape = {
            "line": f'<path d="M{x},{y - 4}h18" stroke="{colour}" stroke-width="2"/>',
            "dashed": f'<path d="M{x},{y - 4}h18" stroke="{colour}" stroke-width="2" stroke-dasharray="5 3"/>',
            "point": f'<circle cx="{x + 9}" cy="{y - 4}" r="3" fill="{colour}"/>',
            "band": f'<rect x="{x}" y="{y - 9}" width="18" height="10" fill="{colour}" opacity="0.2"/>',
        }[mark]
        out.append(f'{shape}<text x="{x + 23}" y="{y}">{name}</text>')
        x += 23 + LETTER * len(name) + 20
    return out


def save(path, title, curves=(), points=(), bands=(), x_label="", y_label="", dashed=(), log=False):
    """curves and points: (name, xs, ys); bands: (name, xs, lows, highs). dashed: names of curves; log: a logarithmic vertical axis."""
    scale = (lambda y: math.log10(max(y, 1e-300))) if log else float
    xs = [x for item in (*curves, *points, *bands) for x in item[1]]
    ys = [scale(y) for item in (*curves, *points, *bands) for part in item[2:] for y in part]
    x0, x1, y0, y1 = min(xs), max(xs), min(ys), max(ys)
    x1, y1 = x1 + (x1 == x0), y1 + (y1 == y0)
    if points:  # so that none is cut in half
        x0, x1 = x0 - 0.01 * (x1 - x0), x1 + 0.01 * (x1 - x0)
    y0, y1 = y0 - 0.05 * (y1 - y0), y1 + 0.05 * (y1 - y0)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def across(x):
        return LEFT + (x - x0) / (x1 - x0) * (right - LEFT)

    def up(y):
        return bottom - (y - y0) / (y1 - y0) * (bottom - TOP)

    def at(x, y):
        return f"{across(x):.1f},{up(scale(y)):.1f}"

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" fill="#24292f">']
    out.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/><text x="{LEFT}" y="26" font-size="15" font-weight="bold">{title}</text>')
    for x, text in _ticks(x0, x1):
        out.append(f'<path d="M{across(x):.1f},{bottom}V{TOP}" stroke="#eaeef2"/><text x="{across(x):.1f}" y="{bottom + 17}" text-anchor="middle">{text}</text>')
    for y, text in _decades(y0, y1) if log else _ticks(y0, y1):
        out.append(f'<path d="M{LEFT},{up(y):.1f}H{right}" stroke="#eaeef2"/><text x="{LEFT - 7}" y="{up(y) + 4:.1f}" text-anchor="end">{text}</text>')
    middle = (TOP + bottom) / 2
    out.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{x_label}</text>')
    out.append(f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">{y_label}</text>')
    legend = []
    for k, (name, x, low, high) in enumerate(bands):
        corners = [at(a, b) for a, b in zip(x, low)] + [at(a, b) for a, b in reversed(list(zip(x, high)))]
        out.append(f'<polygon points="{" ".join(corners)}" fill="{COLOURS[k]}" opacity="0.18"/>')
        legend.append((name, COLOURS[k], "band"))
    for k, (name, x, y) in enumerate(curves):
        dash = ' stroke-dasharray="5 3"' if name in dashed else ""
        out.append(f'<polyline points="{" ".join(map(at, x, y))}" fill="none" stroke="{COLOURS[k % 6]}" stroke-width="1.8" stroke-linejoin="round"{dash}/>')
        legend.append((name, COLOURS[k % 6], "dashed" if dash else "line"))
    for k, (name, x, y) in enumerate(points):
        colour = COLOURS[k % 6] if not curves else COLOURS[(len(curves) + k) % 6] if len(points) > 1 else COLOURS[5]
        out += [f'<circle cx="{across(a):.1f}" cy="{up(scale(b)):.1f}" r="2.5" fill="{colour}" opacity="0.6"/>' for a, b in zip(x, y)]
        legend.append((name, colour, "point"))
    out += [f'<path d="M{LEFT},{TOP}V{bottom}H{right}" fill="none" stroke="#57606a"/>', *_legend(legend)]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*out, "</svg>"]) + "\n")
