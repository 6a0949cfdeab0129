"""Line charts as SVG, without a plotting library."""
import math
from xml.sax.saxutils import escape

COLOURS = ("#1f5fa8", "#d1495b", "#2e933c", "#edae49", "#7768ae", "#5c5c5c", "#00798c", "#a05c2c")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 420, 250, 56, 12, 30, 38


def _ticks(low, high, log):
    if log:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        every = max(1, (last - first) // 5)
        return [10.0 ** e for e in range(first, last + 1, every)]
    raw = (high - low) / 4 or 1
    base = 10 ** math.floor(math.log10(raw))
    step = next(base * m for m in (1, 2, 2.5, 5, 10) if base * m >= raw)
    count = math.floor(high / step + 1e-9)
    return [i * step for i in range(math.ceil(low / step - 1e-9), count + 1)]


def _label(value, log):
    if log:
        e = round(math.log10(value))
        return f"{value:g}" if -3 <= e <= 3 else f"1e{e}"
    return f"{value:g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.0e}"


class Panel:
    """Series of (x, y) points, optionally with (x, low, high) bands; None breaks a line."""

    def __init__(self, title, x_label, y_label, log=False, y_range=None):
        self.title, self.x_label, self.y_label, self.log, self.y_range = title, x_label, y_label, log, y_range
        self.series, self.levels, self.marks = [], [], []

    def line(self, name, points, colour, dashed=False, band=()):
        self.series.append((name, points, COLOURS[colour % len(COLOURS)], dashed, band))

    def level(self, y, text):
        self.levels.append((y, text))

    def mark(self, x, text):
        self.marks.append((x, text))

    def _ranges(self):
        points = [p for _, ps, _, _, band in self.series for p in [*ps, *((x, v) for x, *vs in band for v in vs)] if p[1] is not None]
        ys = [y for _, y in points if not self.log or y > 0] + [y for y, _ in self.levels]
        xs = [x for x, _ in points]
        low, high = self.y_range or (min(ys), max(ys))
        if self.log:
            low, high = 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high))
        return (min(xs), max(xs)), (low, high if high > low else low + 1)

    def draw(self, left, top):
        (x0, x1), (y0, y1) = self._ranges()
        scale = math.log10 if self.log else float
        px = lambda x: left + LEFT + (x - x0) / ((x1 - x0) or 1) * (WIDTH - LEFT - RIGHT)
        def py(y):
            y = min(max(y, y0), y1)
            return top + HEIGHT - BOTTOM - (scale(y) - scale(y0)) / (scale(y1) - scale(y0)) * (HEIGHT - TOP - BOTTOM)
        right, bottom = left + WIDTH - RIGHT, top + HEIGHT - BOTTOM
        out = [f'<text x="{left + LEFT}" y="{top + 16}" font-weight="bold">{escape(self.title)}</text>']
        for y in _ticks(y0, y1, self.log):
            if y0 * (1 - 1e-9) <= y <= y1 * (1 + 1e-9):
                out.append(f'<path d="M{left + LEFT} {py(y):.1f}H{right}" stroke="#ddd"/>'
                           f'<text x="{left + LEFT - 4}" y="{py(y) + 4:.1f}" text-anchor="end">{_label(y, self.log)}</text>')
        for x in _ticks(x0, x1, False):
            out.append(f'<text x="{px(x):.1f}" y="{bottom + 14}" text-anchor="middle">{_label(x, False)}</text>')
        out.append(f'<path d="M{left + LEFT} {top + TOP}V{bottom}H{right}" fill="none" stroke="#333"/>'
                   f'<text x="{(left + LEFT + right) / 2}" y="{bottom + 29}" text-anchor="middle">{escape(self.x_label)}</text>'
                   f'<text transform="translate({left + 11} {(top + TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">{escape(self.y_label)}</text>')
        for y, text in self.levels:
            out.append(f'<path d="M{left + LEFT} {py(y):.1f}H{right}" stroke="#333" stroke-dasharray="2 3"/>'
                       f'<text x="{right}" y="{py(y) - 3:.1f}" text-anchor="end">{escape(text)}</text>')
        for x, text in self.marks:
            out.append(f'<path d="M{px(x):.1f} {top + TOP}V{bottom}" stroke="#333" stroke-dasharray="4 2"/>'
                       f'<text x="{px(x) + 3:.1f}" y="{top + TOP + 10}">{escape(text)}</text>')
        for _, points, colour, dashed, band in self.series:
            if band:
                edge = [(x, low) for x, low, _ in band] + [(x, high) for x, _, high in reversed(band)]
                path = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in edge)
                out.append(f'<polygon points="{path}" fill="{colour}" fill-opacity="0.15"/>')
            path, pen = "", "M"
            for x, y in points:
                if y is None or (self.log and y <= 0):
                    pen = "M"
                    continue
                path, pen = path + f"{pen}{px(x):.1f} {py(y):.1f}", "L"
            dash = ' stroke-dasharray="5 3"' if dashed else ""
            out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>')
        return out

    def legend(self):
        return [(name, colour, dashed) for name, _, colour, dashed, _ in self.series]


def write(path, panels, columns=2):
    """Panels in rows of `columns`, one legend for all names below them."""
    rows = -(-len(panels) // columns)
    names = {}
    for panel in panels:
        for name, colour, dashed in panel.legend():
            names.setdefault(name, (colour, dashed))
    width, per_row = columns * WIDTH, max(1, columns * WIDTH // 200)
    height = rows * HEIGHT + 18 * (-(-len(names) // per_row)) + 6
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>']
    for i, panel in enumerate(panels):
        out += panel.draw(i % columns * WIDTH, i // columns * HEIGHT)
    for i, (name, (colour, dashed)) in enumerate(names.items()):
        x, y = i % per_row * 200 + 20, rows * HEIGHT + 14 + i // per_row * 18
        dash = ' stroke-dasharray="5 3"' if dashed else ""
        out.append(f'<path d="M{x} {y - 4}h24" stroke="{colour}" stroke-width="2"{dash}/><text x="{x + 30}" y="{y}">{escape(name)}</text>')
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n</svg>\n")
