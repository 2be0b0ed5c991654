"use strict";
(() => {
const $ = (s, e) => [...(e || document).querySelectorAll(s)];
const root = document.documentElement, theme = document.getElementById("theme");
const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme:dark)").matches;
const themed = [];
theme.hidden = false;
theme.onclick = () => { root.dataset.theme = dark() ? "light" : "dark"; themed.forEach(f => f()); };
matchMedia("(prefers-color-scheme:dark)").addEventListener("change", () => themed.forEach(f => f()));

/* As the page's own writer rounds (reports/page.c) and names. */
const shown = (v, digits) => {
  if (v === 0) return "0";
  const size = Math.abs(v);
  if (size >= 1e15 || size < 1e-5) return v.toExponential(digits - 1);
  const decimals = digits - Math.floor(Math.log10(size)) - 1;
  const fixed = v.toFixed(Math.max(0, decimals));
  return (Number(fixed) === v ? v : fixed).toString().replace(/^(-?\d+)/, w => w.replace(/\B(?=(\d{3})+$)/g, ","));
};
const short = name => {
  let s = name.replace(/^void /, "");
  for (const u = "(anonymous namespace)::"; s.split("<")[0].includes(u);) s = s.slice(s.indexOf(u) + u.length);
  s = s.split(/[<(]/)[0].split("::").pop();
  return s || name;
};
/* Rows of the kernel table that the page does not write out: places in the answers' lists of kernels. */
const kernelRow = places => {
  const all = places.map((p, d) => p < 0 ? null : answers()[d].kernels[p]), row = all[0], number = (v, n) => v === null || v === undefined ? null : [v, shown(v, n)];
  const priced = row.priced === "program" || row.priced === "fabric";
  const out = [short(row.name), priced ? row.program + " " + row.params : short(row.name) + " (" + row.program + ")", row.category, number(row.count, 5), number(row.traced_ms, 4)];
  for (const k of all) {
    const ends = hasIntervals();
    if (!k) { out.push(null, ...(ends ? [null, null] : []), "", null); continue; }
    const stack = k.stack ? STAGES.map((n, i) => [i % 10, 100 * (k.stack[n] || 0), n]).filter(x => x[1] > 0) : null;
    out.push(number(k.ms, 4), ...(ends ? [number(k.ms_low, 4), number(k.ms_high, 4)] : []), k.limiter, stack && { t: stack.map(x => x[2] + " " + x[1].toFixed(0) + "%").join(", "), b: stack });
  }
  return out;
};
const STAGES = ["hbm", "l2", "l1", "latency", "issue", "matrix", "atomic", "launch", "dispatch", "die_link", "mall"]; /* as in report_predict.c */
let parsed = null;
const answers = () => { if (!parsed) { const a = JSON.parse(document.getElementById("answer").textContent); parsed = Array.isArray(a) ? a : [a]; } return parsed; };

const hasIntervals = () => answers().some(a => a.categories.length > 0 && "ms_low" in a.categories[0]); /* as has_intervals of report_predict.c */

/* Tables: sort by a heading, all rows, CSV with the full numbers. */
const raw = td => { const d = td.querySelector("data"), b = td.querySelector(".bar"); return d ? d.value : b ? b.title : td.textContent.trim(); };
const esc = t => /[",\n]/.test(t) ? '"' + t.replace(/"/g, '""') + '"' : t;
$("table.sort").forEach(table => {
  const body = table.tBodies[0], more = table.dataset.more && JSON.parse(document.getElementById(table.dataset.more).textContent);
  const made = more && table.dataset.rows === "kernels" ? kernelRow : r => r;
  let rest = more || [];
  const cell = (v, n) => {
    const td = document.createElement("td");
    if (v !== null && v.b) { const b = document.createElement("span"); b.className = "bar"; b.title = v.t; for (const [k, w] of v.b) { const i = document.createElement("i"); i.className = "k" + k; i.style.width = w + "%"; b.append(i); } td.append(b); }
    else if (v !== null && typeof v === "object") { const d = document.createElement("data"); d.value = v[0]; d.textContent = v[1]; td.append(d); } else if (n === "w") td.append(...String(v).split(";").flatMap((p, i) => i ? [";", document.createElement("wbr"), p] : [p]));
    else { td.textContent = v === null ? "\u2013" : v; }
    td.className = n; return td;
  };
  const classes = $("thead th", table).map(h => h.className);
  const fill = () => {
    const all = document.createDocumentFragment();
    for (const r of rest) { const tr = document.createElement("tr"); made(r).forEach((v, i) => tr.append(cell(v, classes[i]))); all.append(tr); }
    rest = []; body.append(all);
  };
  const tools = document.createElement("div"); tools.className = "tools";
  if (rest.length) {
    const b = document.createElement("button"); b.textContent = "Show all " + (body.rows.length + rest.length) + " rows";
    b.onclick = () => { fill(); b.remove(); }; tools.append(b);
  }
  const csv = document.createElement("button"); csv.textContent = "CSV"; csv.setAttribute("aria-label", "Download " + (table.caption ? table.caption.textContent : "table") + " as CSV");
  csv.onclick = () => {
    const lines = [$("thead th", table).map(h => esc(h.textContent.trim())).join(",")];
    for (const r of body.rows) lines.push([...r.cells].map(c => esc(raw(c))).join(","));
    for (const r of rest) lines.push(made(r).map(v => esc(v === null ? "" : v.b ? v.t : typeof v === "object" ? String(v[0]) : v)).join(","));
    const a = document.createElement("a"); a.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    a.download = (table.id || "table") + ".csv"; a.click(); setTimeout(() => URL.revokeObjectURL(a.href), 1000);
  };
  tools.append(csv); table.parentNode.before(tools);
  $("thead th", table).forEach((th, i) => {
    const b = document.createElement("button"); b.append(...th.childNodes); th.append(b); b.title = "Sort";
    b.onclick = () => {
      fill();
      const up = th.getAttribute("aria-sort") === "descending" || !(th.getAttribute("aria-sort") || th.classList.contains("n"));
      $("thead th", table).forEach(h => h.removeAttribute("aria-sort"));
      th.setAttribute("aria-sort", up ? "ascending" : "descending");
      const keyed = [...body.rows].map(r => { const t = raw(r.cells[i]), v = parseFloat(t); return [th.classList.contains("n") ? (isNaN(v) ? -Infinity : v) : t, r]; });
      keyed.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) * (up ? 1 : -1));
      body.append(...keyed.map(k => k[1]));
    };
  });
});

/* The timeline: wider or narrower, in its scrolling box. */
$(".lanes").forEach(lanes => {
  const box = lanes.querySelector(".scroll"), svg = lanes.querySelector("svg"), tools = document.createElement("div");
  let zoom = 1;
  const set = z => { const mid = (box.scrollLeft + box.clientWidth / 2) / box.scrollWidth; zoom = Math.min(64, Math.max(1, z)); svg.style.width = 100 * zoom + "%"; box.scrollLeft = mid * box.scrollWidth - box.clientWidth / 2; };
  tools.className = "tools";
  for (const [t, f, l] of [["\u2212", () => set(zoom / 2), "Zoom out"], ["+", () => set(zoom * 2), "Zoom in"], ["1:1", () => set(1), "Whole step"]]) {
    const b = document.createElement("button"); b.textContent = t; b.setAttribute("aria-label", l); b.onclick = f; tools.append(b);
  }
  box.addEventListener("keydown", e => { if (e.key === "+") set(zoom * 2); else if (e.key === "-") set(zoom / 2); else return; e.preventDefault(); });
  lanes.before(tools);
});

/* Zoomable series: drag to zoom, double click for all; buttons do both for a keyboard. */
$(".plot").forEach(div => {
  const d = JSON.parse(document.getElementById(div.dataset.of).textContent);
  const color = n => getComputedStyle(root).getPropertyValue(n).trim();
  let plot = null;
  const make = () => {
    if (plot) plot.destroy();
    const axis = label => ({ label, stroke: color("--ink"), grid: { stroke: color("--line") }, ticks: { stroke: color("--line") } });
    const scale = log => log ? { distr: 3, time: false } : { time: false };
    plot = new uPlot({
      width: Math.max(260, div.clientWidth), height: 320, scales: { x: scale(d.logx), y: scale(d.logy) },
      axes: [axis(d.x), Object.assign(axis(d.y), { size: 64 })],
      series: [{ label: d.x }].concat(d.names.map((n, i) => ({ label: n, stroke: color("--c" + (d.colors ? d.colors[i] : i) % 11), width: 2, dash: d.dashes && d.dashes[i] ? [8, 4] : undefined, points: { show: d.points ? true : undefined } }))),
    }, [d.values[0]].concat(d.values.slice(1)), div);
  };
  const move = (shift, times) => {
    if (!plot) return;
    const all = plot.data[0], whole = d.logx ? [Math.log(all[0]), Math.log(all[all.length - 1])] : [all[0], all[all.length - 1]];
    let [a, b] = [plot.scales.x.min, plot.scales.x.max].map(v => d.logx ? Math.log(v) : v);
    const half = Math.min((b - a) / 2 * times, (whole[1] - whole[0]) / 2), mid = Math.min(Math.max((a + b) / 2 + shift * (b - a), whole[0] + half), whole[1] - half);
    [a, b] = [mid - half, mid + half].map(v => d.logx ? Math.exp(v) : v);
    plot.setScale("x", { min: a, max: b });
  };
  const tools = document.createElement("div"); tools.className = "tools";
  for (const [t, l, s, z] of [["\u2212", "Zoom out", 0, 2], ["+", "Zoom in", 0, .5], ["\u2190", "Earlier", -.25, 1], ["\u2192", "Later", .25, 1], ["1:1", "All of it", 0, Infinity]]) {
    const b = document.createElement("button"); b.textContent = t; b.setAttribute("aria-label", l + ", " + d.y); b.onclick = () => move(s, z); tools.append(b);
  }
  div.before(tools);
  let last = 0; /* made when it is first seen: most stand in closed details */
  themed.push(() => { if (plot) make(); });
  new ResizeObserver(() => {
    if (div.clientWidth === 0 || div.clientWidth === last) return;
    last = div.clientWidth;
    requestAnimationFrame(() => { if (plot) plot.setSize({ width: Math.max(260, last), height: 320 }); else make(); });
  }).observe(div);
});
/* On paper nothing opens: what is folded away is printed, but for the profiles and what is drawn on a canvas. */
addEventListener("beforeprint", () => $("details").forEach(d => { if (!d.querySelector(".plot, [id^=profile]")) d.open = true; }));
root.dataset.ready = Math.round(performance.now()); /* ms from the request to here; tests read it */
})();
