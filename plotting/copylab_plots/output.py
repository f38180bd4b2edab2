"""Writing a figure: caption below it, three formats with the same bytes every time, run ids inside."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path
from typing import Iterable, Sequence

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from .results import Cell, ResultsError, Sweep
from .style import INK, RC, plt

FORMATS = ("pdf", "png", "svg")
_MARK = "copylab runs:"
_CAPTION_SIZE = 8.0


def save(figure: Figure, name: str, caption: str, sweep: Sweep, cells: Iterable[Cell], folder: Path) -> list[Path]:
    """Writes NAME.pdf, .png, .svg and NAME.caption.txt; returns their paths."""
    runs = sorted({f"{cell.experiment}/{cell.run}" for cell in cells if cell.done})
    subject = f"{sweep.experiment} ({sweep.preset}), made by: {sweep.command}" if sweep.command else sweep.experiment
    keywords = f"{_MARK} {' '.join(runs)}"
    metadata = {  # no dates: the same results give the same bytes
        "pdf": {"Title": name, "Subject": subject, "Keywords": keywords, "CreationDate": None},
        "png": {"Title": name, "Description": subject, "Comment": keywords},
        "svg": {"Title": name, "Description": subject, "Keywords": [keywords], "Date": None},
    }
    _add_caption(figure, caption)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{name}.{suffix}" for suffix in FORMATS]
        for path, suffix in zip(paths, FORMATS):
            figure.savefig(path, format=suffix, metadata=metadata[suffix])
        paths.append(folder / f"{name}.caption.txt")
        paths[-1].write_text(caption + "\n")
    except OSError as error:
        raise ResultsError(f"cannot write the figure: {error}") from None
    finally:
        plt.close(figure)
    return paths


def whence(path: Path) -> list[str]:
    """The runs a figure was drawn from, as experiment/run, read from the file itself."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ResultsError(f"cannot read {path}: {error.strerror}") from None
    if data.startswith(b"\x89PNG"):
        data = b"\n".join(_png_texts(data))
    elif data.startswith(b"%PDF"):
        data = re.sub(rb"\\(.)", rb"\1", data)
    found = re.search(re.escape(_MARK.encode()) + rb"([ \w./+=,-]*)", data)
    if not found:
        raise ResultsError(f"{path} holds no run ids: it is not a figure of copylab")
    return found.group(1).decode().split()


def _png_texts(data: bytes) -> Iterable[bytes]:
    offset = 8
    while offset + 8 <= len(data):
        size, kind = struct.unpack(">I4s", data[offset : offset + 8])
        body = data[offset + 8 : offset + 8 + size]
        if kind == b"tEXt":
            yield body.partition(b"\0")[2]
        elif kind == b"zTXt":
            yield zlib.decompress(body.partition(b"\0")[2][1:])
        elif kind == b"iTXt":
            yield body
        offset += 12 + size


def _add_caption(figure: Figure, caption: str) -> None:
    """Makes the page higher and prints the caption in the room won."""
    width, height = figure.get_size_inches()
    margin, line_height = 0.12, _CAPTION_SIZE * 1.28 / 72
    lines = _wrap(figure, caption, (width - 2 * margin) * 72)
    room = len(lines) * line_height + 0.16
    boxes = [(axes, axes.get_position().bounds) for axes in figure.axes]
    figure.set_size_inches(width, height + room)
    scale = height / (height + room)
    for axes, (x, y, w, h) in boxes:
        axes.set_position([x, 1 - (1 - y) * scale, w, h * scale])
    top = (room - 0.06) / (height + room)
    figure.text(
        margin / width, top, "\n".join(lines), va="top", ha="left", size=_CAPTION_SIZE, color=INK, linespacing=1.28
    )


def _wrap(figure: Figure, text: str, width: float) -> Sequence[str]:
    """Lines of `text` that are at most `width` points wide in the caption's font."""
    renderer = figure.canvas.get_renderer()
    font = FontProperties(family=RC["font.family"], size=_CAPTION_SIZE)
    points = 72 / figure.dpi

    def measure(line: str) -> float:
        return renderer.get_text_width_height_descent(line, font, ismath=False)[0] * points

    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and measure(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
