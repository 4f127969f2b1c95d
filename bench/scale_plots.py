"""Draws bench-scale's curves as SVG: medians, the range of the rounds behind them, the floor dashed.

The same results give the same bytes, so that a drawing changes in a commit only with its figures.
"""
import os
import re

from scale_growth import CALL_CURVES, SERVER_CURVES, curve, values

COLOURS = ["#0969da", "#bc4c00", "#8250df", "#1a7f37"]  # told apart also without seeing red or green, by lightness
NAMES = {"mcprt-c": "this library", "gofloor": "floor (hand-written Go)"}
STYLE = {
    "svg.fonttype": "none",  # text stays text: it can be searched and read aloud
    "svg.hashsalt": "mcprt",  # ids from the content, not from chance
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "figure.constrained_layout.h_pad": 0.1,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#d1d9e0",
    "axes.edgecolor": "#59636e",
    "savefig.facecolor": "white",  # readable on a dark page, too
}


def line(ax, got, keys, metric, scale, colour, client):
    points = curve(got, keys, metric, scale)
    if not points:
        return
    x = list(points)
    median, low, high = zip(*points.values())
    ours = client == "mcprt-c"
    look = {"marker": "o", "linestyle": "-", "linewidth": 1.8} if ours else {"marker": "s", "linestyle": "--", "linewidth": 1.2}
    ax.plot(x, median, color=colour, markersize=4, **look)
    ax.fill_between(x, low, high, color=colour, alpha=0.15 if ours else 0.08, linewidth=0)


def finish(figure, entries, title, path):
    """Puts the legend below and writes the file: title as the SVG's own, no date."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=c, linestyle=s, marker=m, markersize=4, label=label) for label, c, s, m in entries]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    figure.savefig(path, metadata={"Date": None, "Creator": None, "Title": title})
    text = open(path).read()
    # Whoever has not the font gets one that fits, not one with serifs.
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    with open(path, "w") as f:
        f.write("\n".join(line.strip() for line in text.splitlines()) + "\n")  # a tenth of the file is indentation


def clients(got, kind, colour):
    return [(NAMES.get(c, c), colour, "-" if c == "mcprt-c" else "--", "o" if c == "mcprt-c" else "s") for c in values(got, kind, 1)]


def draw_servers(plt, got, path):
    sizes = values(got, "servers", 2)
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.4), layout="constrained")
    for ax, (title, metric, scale, unit) in zip(axes, SERVER_CURVES):
        for client, colour in zip(values(got, "servers", 1), COLOURS):
            line(ax, got, {n: ("servers", client, n, 0) for n in sizes}, metric, scale, colour, client)
        ax.set(title=f"{title}, {unit}", xlabel="servers started", xlim=(0, None), ylim=(0, None))
    entries = [(label, colour, style, mark) for (label, _, style, mark), colour in zip(clients(got, "servers", ""), COLOURS)]
    finish(figure, entries, "Starting servers: time to tools, client CPU and client peak RSS against the number of servers", path)


def draw_calls(plt, got, path, place, xlabel, label, chosen, title):
    """Four panels along servers (2) or calls in flight (3), a colour for each chosen value of the other."""
    xs = values(got, "calls", place)
    figure, axes = plt.subplots(2, 2, figsize=(10.5, 6.2), layout="constrained")
    for ax, (name, metric, scale, unit) in zip(axes.flat, CALL_CURVES):
        for other, colour in zip(chosen, COLOURS):
            for client in values(got, "calls", 1):
                keys = {x: ("calls", client, *((x, other) if place == 2 else (other, x))) for x in xs}
                line(ax, got, keys, metric, scale, colour, client)
        ax.set_xscale("log")
        ax.set_xticks(xs, [f"{x:,}" for x in xs])
        ax.set(title=f"{name}, {unit}", xlabel=xlabel)
        if unit == "us":  # from one call's own time to a thousand calls' waiting
            ax.set_yscale("log")
            ax.yaxis.set_major_formatter("{x:,.0f}")
        else:
            ax.set_ylim(0, None)
        ax.minorticks_off()
    entries = [(label.format(f"{other:,}"), colour, "-", "") for other, colour in zip(chosen, COLOURS)]
    finish(figure, entries + clients(got, "calls", "#59636e"), title, path)


def draw(got, folder):
    import matplotlib  # late: measuring needs none of it

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        draw_servers(plt, got, os.path.join(folder, "scale-servers.svg"))
        draw_calls(plt, got, os.path.join(folder, "scale-calls.svg"), 2, "connected servers, calls spread over all", "in flight: {}",
                   values(got, "calls", 3), "Cost of a call against the number of connected servers")
        servers = values(got, "calls", 2)
        draw_calls(plt, got, os.path.join(folder, "scale-inflight.svg"), 3, "calls in flight", "servers: {}",
                   [servers[0], servers[-1]], "Cost of a call against the number of calls in flight")
    plt.close("all")
