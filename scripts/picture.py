"""Draw docs/picture.svg, the picture of the README: `python scripts/picture.py`."""

from html import escape
from pathlib import Path

PICTURE = Path(__file__).parent.parent / "docs" / "picture.svg"
OUTPUTS = (
    ("Files", "fsspec, mount"),
    ("Tables", "Arrow, pandas, Polars"),
    ("SQL", "DuckDB"),
    ("Spark", "data source, pipelines"),
    ("Copies", "verify, offload, repair"),
)
WIDTH, ROW, BOX = 760, 58, 46
"""Pixels: of the picture, from one output to the next, and the height of a box."""

_STYLE = """
  text { font: 15px sans-serif; fill: #24292f } .small { font-size: 12px; fill: #57606a }
  rect { fill: #f6f8fa; stroke: #8c959f; rx: 6 } .ours { fill: #ddf4ff; stroke: #0969da }
  path { fill: none; stroke: #8c959f; stroke-width: 1.5; marker-end: url(#tip) }
"""


def box(x: int, y: int, width: int, title: str, text: str, *, kind: str = "") -> str:
    """Return a box with a title and a line of text below it."""
    middle = x + width // 2
    return (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{BOX}"/>'
        f'<text x="{middle}" y="{y + 20}" text-anchor="middle" font-weight="bold">{escape(title)}</text>'
        f'<text class="small" x="{middle}" y="{y + 37}" text-anchor="middle">{escape(text)}</text>'
    )


def picture() -> str:
    """Return the picture: a bucket, ledgerfs, and what users get."""
    height = ROW * len(OUTPUTS) + 8
    middle = (height - BOX) // 2
    parts = [
        box(6, middle, 190, "Bucket", "S3, GCS, Azure, folder"),
        box(286, middle, 150, "ledgerfs", "no broker", kind="ours"),
        f'<path d="M196 {height // 2} H280"/>',
    ]
    for number, (title, text) in enumerate(OUTPUTS):
        y = 10 + number * ROW
        parts.append(box(546, y, 208, title, text))
        parts.append(f'<path d="M436 {height // 2} C490 {height // 2} 480 {y + BOX // 2} 540 {y + BOX // 2}"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">'
        f"<title>A bucket of offloaded ledgers, opened by ledgerfs as files, tables, SQL, Spark and copies</title>"
        f"<style>{_STYLE}</style>"
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto">'
        '<polygon points="0 0, 6 3, 0 6" fill="#8c959f"/></marker></defs>'
        f'<rect x="0" y="0" width="{WIDTH}" height="{height}" style="fill: white; stroke: none"/>'
        f"{''.join(parts)}</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
