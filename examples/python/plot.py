"""A small picture maker for the examples: curves, points, bands, bars and fields come in as lists of
numbers, an SVG file goes out. `save` draws one panel, `save_panels` several beside each other."""

import base64
import math
import struct
import zlib

COLOURS = ("#1f6feb", "#d1570b", "#1a7f37", "#8250df", "#bf3989", "#57606a")
WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 64, 52
LETTER = 6.4  # how wide one is, about
SHARP = 256  # pixels along a field: cells are drawn as squares of several, which nothing blurs
TINY = 1e-300  # what a logarithm is taken of where there is nothing

# From cold to hot, through colours that differ in lightness too.
HEAT = ((20, 12, 64), (98, 24, 116), (184, 50, 92), (240, 118, 48), (252, 222, 130))


# ---- scales ----


def _ticks(low, high):
    """About five round numbers between low and high."""
    span = high - low
    power = 10.0 ** math.floor(math.log10(span))
    step = next(power * f for f in (0.2, 0.5, 1, 2) if span / (power * f) <= 6)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(k * step, f"{k * step:g}") for k in range(first, last + 1)]


def _decades(low, high):
    """Powers of ten between 10**low and 10**high, and halves of decades where there are few."""
    whole = [(k, f"{10.0**k:g}") for k in range(math.ceil(low), math.floor(high) + 1)]
    if len(whole) > 2:
        return whole
    third = math.log10(3)
    halves = [(k + third, f"{3 * 10.0**k:g}") for k in range(math.floor(low), math.floor(high) + 1)]
    return sorted(whole + [(at, text) for at, text in halves if low <= at <= high])


class _Frame:
    """Where a panel lies in the picture, and where numbers lie in the panel."""

    def __init__(self, box, x_range, y_range, log=False):
        self.left, self.top, self.right, self.bottom = box
        self.x_range, self.y_range, self.log = x_range, y_range, log

    def scaled(self, y):
        return math.log10(max(y, TINY)) if self.log else float(y)

    def x(self, x):
        low, high = self.x_range
        return self.left + (x - low) / (high - low) * (self.right - self.left)

    def y(self, y):
        low, high = self.y_range
        return self.bottom - (self.scaled(y) - low) / (high - low) * (self.bottom - self.top)

    def at(self, x, y):
        return f"{self.x(x):.1f},{self.y(y):.1f}"


def _range(values, margin):
    low, high = min(values), max(values)
    high += high == low
    return low - margin * (high - low), high + margin * (high - low)


# ---- panels ----


def panel(title="", curves=(), points=(), bands=(), x_label="", y_label="", dashed=(), log=False):
    """curves and points: (name, xs, ys); bands: (name, xs, lows, highs). dashed: names of curves; log: a
    logarithmic vertical axis."""
    return lambda box: _draw_axes(box, title, curves, points, bands, x_label, y_label, dashed, log)


def field(rows, title="", low=None, high=None, marks=(), ring=None, x_names=(), y_names=()):
    """A picture of numbers in rows, from low (dark) to high (bright); marks: (x, y) of dots; ring: (x, y,
    radius), both in cells from the first corner; x_names, y_names: what the columns and rows are."""
    return lambda box: _draw_field(box, rows, title, low, high, marks, ring, x_names, y_names)


def bars(names, groups, title="", unit=""):
    """One row per name with a bar per group, (name, numbers), on a logarithmic axis."""
    return lambda box: _draw_bars(box, names, groups, title, unit)


def _text(x, y, text, anchor="start", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{text}</text>'


def _legend(x, y, items):
    """Marks and names in one row."""
    out = []
    for name, colour, mark in items:
        stroke = f'stroke="{colour}" stroke-width="2"'
        shape = {
            "line": f'<path d="M{x},{y - 4}h18" {stroke}/>',
            "dashed": f'<path d="M{x},{y - 4}h18" {stroke} stroke-dasharray="5 3"/>',
            "point": f'<circle cx="{x + 9}" cy="{y - 4}" r="3" fill="{colour}"/>',
            "band": f'<rect x="{x}" y="{y - 9}" width="18" height="10" fill="{colour}" opacity="0.2"/>',
            "bar": f'<rect x="{x}" y="{y - 9}" width="18" height="10" fill="{colour}"/>',
        }[mark]
        out.append(shape + _text(x + 23, y, name))
        x += 23 + LETTER * len(name) + 20
    return out


def _draw_axes(box, title, curves, points, bands, x_label, y_label, dashed, log):
    frame = _Frame(box, (0, 1), (0, 1), log)
    items = (*curves, *points, *bands)
    frame.x_range = _range([x for item in items for x in item[1]], 0.01 if points else 0)
    frame.y_range = _range([frame.scaled(y) for item in items for part in item[2:] for y in part], 0.05)
    left, top, right, bottom = box
    out, legend = [], []
    if title:
        out.append(_text(left, top - 30, title, more=' font-weight="bold"'))
    for x, text in _ticks(*frame.x_range):
        out.append(f'<path d="M{frame.x(x):.1f},{bottom}V{top}" stroke="#eaeef2"/>')
        out.append(_text(frame.x(x), bottom + 17, text, "middle"))
    low, high = frame.y_range
    for y, text in _decades(low, high) if log else _ticks(low, high):
        at = bottom - (y - low) / (high - low) * (bottom - top)
        out.append(f'<path d="M{left},{at:.1f}H{right}" stroke="#eaeef2"/>')
        out.append(_text(left - 7, at + 4, text, "end"))
    middle = (top + bottom) / 2
    out.append(_text((left + right) / 2, bottom + 40, x_label, "middle"))
    turned = f' transform="rotate(-90 {left - 48} {middle})"'
    out.append(_text(left - 48, middle, y_label, "middle", turned))
    for k, (name, x, lows, highs) in enumerate(bands):
        corners = [frame.at(a, b) for a, b in zip(x, lows)]
        corners += [frame.at(a, b) for a, b in reversed(list(zip(x, highs)))]
        out.append(f'<polygon points="{" ".join(corners)}" fill="{COLOURS[k]}" opacity="0.18"/>')
        legend.append((name, COLOURS[k], "band"))
    for k, (name, x, y) in enumerate(curves):
        colour, dash = COLOURS[k % 6], ' stroke-dasharray="5 3"' if name in dashed else ""
        line = " ".join(map(frame.at, x, y))
        stroke = f'stroke="{colour}" stroke-width="1.8" stroke-linejoin="round"{dash}'
        out.append(f'<polyline points="{line}" fill="none" {stroke}/>')
        legend.append((name, colour, "dashed" if dash else "line"))
    for k, (name, x, y) in enumerate(points):
        alone = len(points) == 1 and curves
        colour = COLOURS[5] if alone else COLOURS[(len(curves) + k) % 6]
        for a, b in zip(x, y):
            place = f'cx="{frame.x(a):.1f}" cy="{frame.y(b):.1f}"'
            out.append(f'<circle {place} r="2.5" fill="{colour}" opacity="0.6"/>')
        legend.append((name, colour, "point"))
    out.append(f'<path d="M{left},{top}V{bottom}H{right}" fill="none" stroke="#57606a"/>')
    return out + _legend(left, top - 12, legend)


def _png(rows, low, high):
    """The pixels of a field as a PNG file."""

    def colour(value):
        place = min(max((value - low) / ((high - low) or 1), 0.0), 1.0) * (len(HEAT) - 1)
        below = min(int(place), len(HEAT) - 2)
        part = place - below
        return bytes(round(a + part * (b - a)) for a, b in zip(HEAT[below], HEAT[below + 1]))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    times = max(1, SHARP // max(len(rows), len(rows[0])))
    lines = (b"\0" + b"".join(times * colour(value) for value in row) for row in rows)
    pixels = b"".join(times * line for line in lines)
    header = struct.pack(">IIBBBBB", times * len(rows[0]), times * len(rows), 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def _draw_field(box, rows, title, low, high, marks, ring, x_names, y_names):
    left, top, right, bottom = box
    numbers = [value for row in rows for value in row]
    low, high = min(numbers) if low is None else low, max(numbers) if high is None else high
    cell = min((right - left) / len(rows[0]), (bottom - top) / len(rows))
    width, height = cell * len(rows[0]), cell * len(rows)
    data = base64.b64encode(_png(rows, low, high)).decode()
    size = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"'
    out = [f'<image {size} href="data:image/png;base64,{data}"/>']
    out.append(_text(left, top - 8, title))
    for x, y in marks:
        place = f'cx="{left + cell * (x + 0.5):.1f}" cy="{top + cell * (y + 0.5):.1f}"'
        out.append(f'<circle {place} r="2.2" fill="white" stroke="#24292f" stroke-width="0.7"/>')
    if ring:
        place = f'cx="{left + cell * (ring[0] + 0.5):.1f}" cy="{top + cell * (ring[1] + 0.5):.1f}"'
        shape = f'{place} r="{cell * ring[2]:.1f}"'
        out.append(f'<circle {shape} fill="none" stroke="white" stroke-width="1.5"/>')
    for k, name in enumerate(x_names):
        out.append(_text(left + cell * (k + 0.5), top + height + 15, name, "middle"))
    for k, name in enumerate(y_names):
        out.append(_text(left - 7, top + cell * (k + 0.5) + 4, name, "end"))
    return out


def _draw_bars(box, names, groups, title, unit):
    left, top, right, bottom = box
    numbers = [math.log10(value) for _, values in groups for value in values]
    low, high = math.floor(min(numbers)), max(numbers) + 0.45  # room for the number behind the bar
    across = (right - left) / (high - low)
    out = [_text(left, top - 30, title, more=' font-weight="bold"')]
    for power in range(low, math.floor(high) + 1):
        x = left + (power - low) * across
        out.append(f'<path d="M{x:.1f},{bottom}V{top}" stroke="#eaeef2"/>')
        out.append(_text(x, bottom + 17, f"{10.0**power:,g}{unit}", "middle"))
    row = (bottom - top) / len(names)
    thick = row * 0.8 / len(groups)
    for i, name in enumerate(names):
        start = top + row * (i + 0.1)
        out.append(_text(left - 7, start + row * 0.4 + 4, name, "end"))
        for k, (_, values) in enumerate(groups):
            length = (math.log10(values[i]) - low) * across
            y = start + k * thick
            size = f'x="{left}" y="{y:.1f}" width="{length:.1f}" height="{thick * 0.92:.1f}"'
            out.append(f'<rect {size} fill="{COLOURS[k]}"/>')
            number = f"{values[i]:.2g}" if values[i] < 10 else f"{values[i]:,.0f}"
            out.append(_text(left + length + 4, y + thick * 0.46 + 3.5, number, more=' font-size="10"'))
    out.append(f'<path d="M{left},{top}V{bottom}" stroke="#57606a"/>')
    return out + _legend(left, top - 12, [(name, COLOURS[k], "bar") for k, (name, _) in enumerate(groups)])


# ---- pictures ----


def save(path, title, curves=(), points=(), bands=(), x_label="", y_label="", dashed=(), log=False):
    """A picture of one panel (see `panel`)."""
    save_panels(path, title, [panel("", curves, points, bands, x_label, y_label, dashed, log)])


def save_panels(path, title, panels, width=WIDTH, height=HEIGHT, columns=None, room=(LEFT, TOP, BOTTOM)):
    """Panels in rows of so many columns, otherwise all in one row; room: for what stands left of, above and
    below each."""
    columns = columns or len(panels)
    rows = -(-len(panels) // columns)
    left, top, bottom = room
    above = 18 if len(panels) > 1 else 0  # the picture's own title
    across, down = width / columns, (height - above) / rows
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} '
        f'{height}" font-family="sans-serif" font-size="12" fill="#24292f">'
    ]
    out.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    out.append(_text(left, 26, title, more=' font-size="15" font-weight="bold"'))
    for k, draw in enumerate(panels):
        x, y = across * (k % columns), above + down * (k // columns)
        out += draw((x + left, y + top, x + across - RIGHT, y + down - bottom))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*out, "</svg>"]) + "\n")
