"""Plots how a repository grew: an SVG of what each snapshot read and what it added.

TABANE_REPOSITORY=… TABANE_PASSWORD_FILE=… python growth.py > growth.svg
"""

import itertools

import tabane

WIDTH, HEIGHT, MARGIN = 800, 300, 40


def growth(repository):
    """For each snapshot its time, the bytes of its files, and what all until it have stored."""
    snapshots = repository.snapshots()
    stored = itertools.accumulate(snapshot.summary["stored_bytes"] for snapshot in snapshots)
    return [
        (snapshot.time, snapshot.summary["total_bytes"], total)
        for snapshot, total in zip(snapshots, stored)
    ]


def line(points, color):
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{text}" fill="none" stroke="{color}" stroke-width="2"/>'


def plot(rows):
    """The rows of `growth` as SVG: blue what snapshots have, orange what is stored."""
    first, last = rows[0][0].timestamp(), rows[-1][0].timestamp()
    most = max(max(row[1:]) for row in rows) or 1

    def place(time, value):
        x = MARGIN + (WIDTH - 2 * MARGIN) * (time.timestamp() - first) / ((last - first) or 1)
        return x, HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * value / most

    files = [place(time, size) for time, size, _ in rows]
    stored = [place(time, size) for time, _, size in rows]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}">',
            line(files, "steelblue"),
            line(stored, "darkorange"),
            f'<text x="{MARGIN}" y="20">{rows[0][0]:%d %B %Y} to {rows[-1][0]:%d %B %Y}, '
            f"up to {most / 1e9:.3f} GB: files blue, stored orange</text>",
            "</svg>",
        ]
    )


if __name__ == "__main__":
    with tabane.Repository() as repository:
        print(plot(growth(repository)))
