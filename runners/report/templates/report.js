"use strict";
(() => {
  const root = document.documentElement;
  const themes = JSON.parse(document.getElementById("themes").textContent);
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = 480;

  // A page opened from a file may have no storage.
  const kept = {
    get: () => { try { return localStorage.getItem("gistbench-theme"); } catch { return null; } },
    set: (value) => { try { localStorage.setItem("gistbench-theme", value); } catch { /* not kept */ } },
  };
  const theme = () => kept.get() || root.dataset.chosen || (system.matches ? "dark" : "light");

  const coloured = (value, colours) => {
    if (typeof value === "string") return value.startsWith("@@") && colours[value] ? colours[value] : value;
    if (Array.isArray(value)) return value.map((inner) => coloured(inner, colours));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, coloured(inner, colours)]));
    }
    return value;
  };

  // Texts of figures are escaped; they are cut by what is read.
  const read = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
  const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const cut = (text, length) => {
    const whole = read(text);
    return whole.length > length ? escaped(whole.slice(0, Math.max(length - 1, 2)).replace(/…$/, "") + "…") : text;
  };

  // Labels of points were placed for a wider panel: one that would lie over a point or a label goes to another side of
  // its point, or is left out; the point says it when touched.
  const apart = (data, layout, width) => {
    const { margin, xaxis, yaxis } = layout;
    const wide = width - margin.l - margin.r;
    const high = layout.height - margin.t - margin.b;
    const share = (value, [least, most]) => (value - least) / (most - least);
    const across = (value) => share(value, xaxis.range) * wide;
    const along = (value) => share(value, yaxis.range) * high;
    const placed = (value, axis) => (axis.type === "log" ? Math.log10(value) : value);
    const taken = data.filter((trace) => trace.mode === "markers").flatMap((trace) => trace.x.map((x, n) => {
      const half = [trace.marker.size].flat()[Array.isArray(trace.marker.size) ? n : 0] / 2;
      const [left, up] = [across(placed(x, xaxis)), along(placed(trace.y[n], yaxis))];
      return [left - half, left + half, up - half, up + half];
    }));
    for (const note of layout.annotations || []) {
      if (note.name !== "point") continue;
      const length = read(note.text).length * 6.6;
      const gap = Math.max(Math.abs(note.xshift), 9);
      const sides = [
        [note.xshift, note.yshift, note.xanchor], [gap, 0, "left"], [-gap, 0, "right"], [0, 16, "center"],
        [0, -16, "center"], [gap, 12, "left"], [gap, -12, "left"], [-gap, 12, "right"], [-gap, -12, "right"],
      ];
      const box = ([right, up, anchor]) => {
        const left = across(note.x) + right - length * { left: 0, center: 0.5, right: 1 }[anchor];
        const at = along(note.y) + up;
        return [left, left + length, at - 7, at + 7];
      };
      const free = sides.find((side) => {
        const [left, end, low, top] = box(side);
        return left > -margin.l && end < wide + margin.r && low > 0 && top < high
          && !taken.some(([x, y, bottom, upper]) => left < y && x < end && low < upper && bottom < top);
      });
      if (free) {
        [note.xshift, note.yshift, note.xanchor] = free;
        taken.push(box(free));
      } else {
        note.visible = false;
      }
    }
  };

  // What would leave no room for the data is made narrower, and labels are turned to where there is room.
  const fitted = (data, layout, width) => {
    const each = 7.2;
    const margin = layout.margin;
    if (width < narrow) {
      for (const one of [layout, layout.xaxis, layout.yaxis, ...(layout.annotations || [])]) {
        const font = one.tickfont || one.font;
        font.size = Math.min(font.size, 11);
      }
      const most = width * 0.36;
      const axis = layout.yaxis;
      if (margin.l > most && axis.ticktext) {
        axis.ticktext = axis.ticktext.map((text) => cut(text, Math.floor((most - 16) / each)));
        margin.l = most;
      }
      margin.r = Math.min(margin.r, width * 0.3);
    }
    const [low, high] = layout.xaxis.range;
    for (const note of layout.annotations || []) {
      const place = margin.l + ((note.x - low) / (high - low)) * (width - margin.l - margin.r);
      const length = read(note.text).length * each;
      const left = place + (note.xshift || 0) - length * { left: 0, center: 0.5, right: 1 }[note.xanchor || "center"];
      if (left >= 0 && left + length <= width) continue;
      if (note.name !== "end" && note.xanchor === "left" && place - note.xshift - length >= 0) {
        note.xanchor = "right";
        note.xshift = -note.xshift;
      } else if (note.xanchor === "right" && place - note.xshift + length <= width) {
        note.xanchor = "left";
        note.xshift = -note.xshift;
      } else if (note.xanchor === "center" && length < width) {
        note.xshift = (note.xshift || 0) + (left < 0 ? 2 - left : width - 2 - left - length);
      } else {
        const room = note.xanchor === "right" ? place + note.xshift : width - place - note.xshift;
        note.text = cut(note.text, Math.floor(room / each));
      }
    }
    if (width < narrow) apart(data, layout, width);
    return layout;
  };

  const specs = new WeakMap();
  const draw = (place) => {
    if (!specs.has(place)) {
      specs.set(place, JSON.parse(place.querySelector("script").textContent));
      place.textContent = "";
    }
    const { data, layout } = coloured(specs.get(place), themes[theme()]);
    place.dataset.drawn = theme();
    Plotly.react(place, data, fitted(data, layout, place.clientWidth), {
      displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    });
  };

  const plots = [...document.querySelectorAll(".plot")];
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting && entry.target.dataset.drawn !== theme()) draw(entry.target);
    }
  }, { rootMargin: "400px" });

  const show = () => {
    root.dataset.theme = theme();
    button.querySelector("span").textContent = theme() === "dark" ? "Light" : "Dark";
    for (const place of plots) {
      // Those in sight now, the others when they come into sight.
      seen.unobserve(place);
      seen.observe(place);
    }
  };
  button.addEventListener("click", () => {
    const other = theme() === "dark" ? "light" : "dark";
    root.dataset.chosen = other;
    kept.set(other);
    show();
  });
  system.addEventListener("change", show);
  window.addEventListener("beforeprint", () => plots.forEach(draw));
  show();

  const key = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.v === undefined) return null;
    return cell.classList.contains("number") ? Number(cell.dataset.v) : cell.dataset.v;
  };
  const order = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }));

  for (const table of document.querySelectorAll("table")) {
    const headings = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    headings.forEach((heading, column) => {
      heading.firstChild.addEventListener("click", () => {
        // Numbers begin with the greatest, texts with the first.
        const first = heading.classList.contains("number") ? "descending" : "ascending";
        const other = first === "ascending" ? "descending" : "ascending";
        const direction = heading.getAttribute("aria-sort") === first ? other : first;
        headings.forEach((each) => each.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", direction);
        const body = table.tBodies[0];
        const rows = [...body.rows].map((row, place) => [key(row, column), place, row]);
        const sign = direction === "ascending" ? 1 : -1;
        rows.sort((a, b) => {
          // What has no value is last either way.
          if (a[0] === null || b[0] === null) return (a[0] === null) - (b[0] === null) || a[1] - b[1];
          return sign * order(a[0], b[0]) || a[1] - b[1];
        });
        body.append(...rows.map((row) => row[2]));
      });
    });
  }
  for (const field of document.querySelectorAll("input[type=search]")) {
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      for (const row of field.closest(".table").querySelectorAll("tbody tr")) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
      }
    });
  }
  if (window.innerWidth < 1000) document.querySelector("nav details").open = false;
})();
