// Draws the figure's panels from the options that the server built, and adds points to them.
import { number, fixed, setText } from "./dom.js";

export class Figure {
  constructor(data, root) {
    this.window = data.window;
    this.tops = data.tops;
    this.panels = [];
    this.curves = new Map(); // metric -> [Curve]
    this.last = 0;
    for (const drawn of data.panels) {
      const place = root.querySelector(`[data-plot="${CSS.escape(drawn.id)}"]`);
      if (place) this.addPanel(drawn, place);
    }
    window.echarts.connect(this.panels.map((panel) => panel.chart));
    document.addEventListener("themechange", () => this.paint());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
    new ResizeObserver(() => this.panels.forEach((panel) => panel.chart.resize())).observe(root);
  }

  addPanel(drawn, place) {
    const chart = window.echarts.init(place, null, { renderer: "canvas" });
    chart.group = "figure2";
    const option = drawn.option;
    option.tooltip.renderMode = "richText"; // drawn on the canvas: no markup is made of any text
    option.tooltip.confine = true;
    option.tooltip.formatter = (items) => describe(items);
    for (const zoom of option.dataZoom) Object.assign(zoom, { zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, minValueSpan: 5 });
    const panel = { chart, option, place, latest: place.closest("figure").querySelector(".latest"), curves: [] };
    for (const spec of drawn.curves) {
      const curve = new Curve(spec, option, this.window);
      panel.curves.push(curve);
      if (!this.curves.has(spec.metric)) this.curves.set(spec.metric, []);
      this.curves.get(spec.metric).push({ curve, panel });
      this.last = Math.max(this.last, curve.lastStep());
    }
    this.panels.push(panel);
    chart.setOption(themed(option));
    place.dataset.points = String(panel.curves[0].points());
  }

  // add puts one step's metrics into every panel that shows them. A step seen before is replaced.
  add(step, metrics) {
    const touched = new Set();
    for (const [metric, entries] of this.curves) {
      if (!(metric in metrics)) continue;
      const value = number(metrics[metric]);
      for (const { curve, panel } of entries) {
        curve.add(step, value);
        touched.add(panel);
        if (curve === panel.curves[0]) setText(panel.latest, fixed(value));
      }
    }
    this.last = Math.max(this.last, step);
    touched.forEach((panel) => this.refresh(panel));
  }

  // refresh hands ECharts the data alone: axes, zoom and the rest stay as they are.
  refresh(panel) {
    const axis = panel.option.xAxis[0];
    const grown = this.last > axis.max;
    if (grown) axis.max = Math.ceil(this.last * 1.25);
    const change = { series: panel.curves.flatMap((curve) => curve.changes()) };
    if (grown) change.xAxis = [{ max: axis.max }];
    const scale = panel.option.yAxis[0];
    const largest = Math.max(...panel.curves.map((curve) => curve.largest));
    if (scale.max && largest > scale.max) {
      scale.max = this.tops.find((top) => largest <= top) ?? null;
      change.yAxis = [{ max: scale.max }];
    }
    panel.chart.setOption(themed(change), { lazyUpdate: true });
    panel.place.dataset.points = String(panel.curves[0].points());
  }

  paint() {
    for (const panel of this.panels) {
      const { dataZoom, ...rest } = panel.option; // the zoom in use stays
      panel.chart.setOption(themed(rest));
    }
  }

  // zoom narrows or widens the span of steps around the newest one, or shows them all.
  zoom(action) {
    const first = this.panels[0];
    if (!first) return;
    const { start, end } = first.chart.getOption().dataZoom[0];
    let span = [0, 100];
    const width = end - start;
    if (action === "in") span = [start + width / 4, end - width / 4];
    if (action === "out") span = [Math.max(0, start - width / 2), Math.min(100, end + width / 2)];
    first.chart.dispatchAction({ type: "dataZoom", start: span[0], end: span[1] }); // connected panels follow
  }
}

class Curve {
  constructor(spec, option, window) {
    this.window = window;
    this.marks = spec.marks;
    this.raw = option.series.find((series) => series.id === spec.raw);
    this.mean = option.series.find((series) => series.id === spec.mean);
    this.raw.data ??= [];
    this.mean.data ??= [];
    this.largest = this.raw.data.reduce((most, [, value]) => Math.max(most, value), 0);
    this.tail = (spec.tail ?? []).map(([step, value]) => [step, number(value)]);
  }

  points() { return this.raw.data.length; }

  lastStep() { return this.tail.length ? this.tail.at(-1)[0] : 0; }

  add(step, value) {
    if (this.tail.some(([s]) => s >= step)) this.drop(step);
    const previous = this.tail.at(-1);
    if (previous && step !== previous[0] + 1) this.mean.data.push([previous[0] + 1, null]);
    this.tail.push([step, value]);
    if (this.tail.length > 2 * this.window) this.tail.shift(); // more than one window, so that repeated steps leave enough
    if (Number.isFinite(value)) {
      this.raw.data.push([step, value]);
      this.largest = Math.max(this.largest, value);
    } else if (this.marks) this.breakAt(step, value);
    this.mean.data.push([step, this.average()]);
  }

  // average is the trailing mean of the server: it starts anew after a missing step and after a value that is not finite.
  average() {
    let sum = 0;
    let count = 0;
    for (let i = this.tail.length - 1; i >= 0 && count < this.window; i--) {
      const [step, value] = this.tail[i];
      if (!Number.isFinite(value)) break;
      if (i < this.tail.length - 1 && this.tail[i + 1][0] !== step + 1) break;
      sum += value;
      count++;
    }
    return count ? sum / count : null;
  }

  // breakAt marks a value that has no height by a line with its name.
  breakAt(step, value) {
    const line = this.raw.markLine ?? { symbol: ["none", "none"], label: { show: true, formatter: "{b}", color: "--warn", position: "insideEndTop", fontSize: 10 }, lineStyle: { color: "--warn", type: "dotted", width: 1, opacity: 0.6 }, data: [] };
    line.data.push({ name: String(value), xAxis: step });
    this.raw.markLine = line;
  }

  // drop forgets a step and what followed, which the feed is about to repeat.
  drop(to) {
    const before = ([step]) => step < to;
    this.raw.data = this.raw.data.filter(before);
    this.mean.data = this.mean.data.filter(before);
    this.tail = this.tail.filter(([step]) => step < to);
    if (this.raw.markLine) this.raw.markLine.data = this.raw.markLine.data.filter((item) => item.xAxis < to);
  }

  changes() {
    const raw = { id: this.raw.id, data: this.raw.data };
    if (this.raw.markLine) raw.markLine = this.raw.markLine;
    return [raw, { id: this.mean.id, data: this.mean.data }];
  }
}

function describe(items) {
  if (!items.length) return "";
  const lines = [`step ${items[0].value[0]}`];
  for (const item of items) {
    const value = item.value[1];
    if (value !== null && value !== undefined) lines.push(`${item.seriesName}  ${fixed(Number(value))}`);
  }
  return lines.join("\n");
}

// themed copies an option with every colour name of the form --name replaced by its value in the theme in use.
export function themed(option) {
  const style = getComputedStyle(document.documentElement);
  const seen = new Map();
  const resolve = (name) => {
    if (!seen.has(name)) seen.set(name, style.getPropertyValue(name).trim());
    return seen.get(name);
  };
  const walk = (node) => {
    if (typeof node === "string") return node.startsWith("--") ? resolve(node) : node;
    if (Array.isArray(node)) return node.map(walk);
    if (node && typeof node === "object") return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, key === "data" && !isMark(value) ? value : walk(value)]));
    return node;
  };
  const copy = walk(option);
  copy.textStyle = { fontFamily: style.getPropertyValue("--sans").trim(), color: resolve("--ink") };
  if (copy.tooltip) copy.tooltip.textStyle = { color: resolve("--ink"), fontSize: 12 };
  return copy;
}

// isMark tells a mark line's data, which is walked, from a series' points, which have no colours and may be many.
function isMark(data) {
  return Array.isArray(data) && data.length > 0 && typeof data[0] === "object" && data[0] !== null && "xAxis" in data[0];
}
