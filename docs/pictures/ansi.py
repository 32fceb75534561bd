"""Writes what a terminal shows, with its colours, as an HTML page.

usage: ansi.py SCREEN COLUMNS LINES PAGE

Prints the width and the height of the page. Each character stands in a cell of its
own width, so that bars and curves join whatever font the browser has.
"""

import html
import re
import sys
import unicodedata

CELL, LINE = 8.4, 18
COLOURS = {31: "#f2777a", 32: "#8fc98f", 33: "#e6c068", 34: "#6ea8e0", 35: "#c39ac9", 36: "#66c7c7"}
BACK, FORE = "#16191d", "#d3d7dd"


def style(codes):
    fore, back = COLOURS.get(next((c for c in codes if c in COLOURS), 0), FORE), BACK
    if 7 in codes:
        fore, back = back, "#aeb6c0"
    text = f"color:{fore};"
    if back != BACK:
        text += f"background:{back};"
    if 1 in codes:
        text += "font-weight:bold;"
    if 2 in codes:
        text += "opacity:.55;"
    return text


def spans(line, codes):
    """Gives each character of a line with its codes, which go on from line to line."""
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if found := re.fullmatch(r"\x1b\[([0-9;]*)m", part):
            for code in map(int, filter(None, (found[1] or "0").split(";"))):
                if code == 0:
                    codes.clear()
                elif code in (22, 27, 39, 49):
                    codes -= {22: {1, 2}, 27: {7}, 39: set(COLOURS), 49: set()}[code]
                else:
                    if code in COLOURS:
                        codes -= set(COLOURS)
                    codes.add(code)
        else:
            for c in part:
                yield c, frozenset(codes)


def character(x, y, c, codes):
    return f'<span style="left:{x:.1f}px;top:{y}px;{style(codes)}">{html.escape(c)}</span>'


def bar(x, y, c, codes, wide):
    """Draws blocks and dots as boxes: fonts leave gaps between them."""
    colour = style(codes).split(";")[0].split(":")[1]
    if c in "█▒░":
        alpha = {"█": 1, "▒": 0.45, "░": 0.14}[c]
        return box(x, y + 4, wide, LINE - 6, colour, alpha)
    if "▁" <= c <= "█":
        high = (ord(c) - ord("▁") + 1) / 8 * (LINE - 4)
        return box(x, y + LINE - 2 - high, wide - 0.8, high, colour, 1)
    dots = ord(c) - 0x2800
    out = []
    for column, bits in enumerate(((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))):
        n = sum(bool(dots & b) for b in bits)
        if n:
            high = n / 4 * LINE
            out.append(box(x + column * wide / 2, y + LINE - high, wide / 2 + 0.05, high, colour, 0.85))
    return "".join(out)


def box(x, y, width, height, colour, alpha):
    return f'<i style="left:{x:.2f}px;top:{y:.2f}px;width:{width:.2f}px;height:{height:.2f}px;background:{colour};opacity:{alpha}"></i>'


def main(screen, columns, lines, page):
    out, codes_now = [], set()
    text = open(screen, encoding="utf-8").read().split("\n")
    for row, line in enumerate(text[: int(lines)]):
        x = 0
        for c, codes in spans(line, codes_now):
            cells = 2 if unicodedata.east_asian_width(c) in "WF" else 1
            at, wide = x * CELL, cells * CELL
            if 7 in codes:
                out.append(box(at, row * LINE, wide + 0.1, LINE, "#aeb6c0", 1))
            if c in "█▒░" or "▁" <= c <= "█" or "\u2801" <= c <= "\u28ff":
                out.append(bar(at, row * LINE, c, codes, wide))
            elif c != " ":
                out.append(character(at, row * LINE, c, codes))
            x += cells
    width, height = int(int(columns) * CELL) + 24, int(lines) * LINE + 24
    sheet = (
        f"html{{background:{BACK}}}body{{margin:12px;position:relative;font:13.5px/{LINE}px 'DejaVu Sans Mono',monospace}}"
        "span,i{position:absolute;white-space:pre;display:block}"
    )
    open(page, "w", encoding="utf-8").write(f"<!doctype html><meta charset=utf-8><style>{sheet}</style><body>{''.join(out)}")
    print(width, height)


if __name__ == "__main__":
    main(*sys.argv[1:])
