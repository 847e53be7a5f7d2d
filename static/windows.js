// The table of first-window and last-window means, kept up to date from the feed.
import { fixed, number, setText } from "./dom.js";

const longest = 50; // steps in a window, as in the paper
const spare = 10; // more of the newest, since the feed may repeat a few steps

export class Windows {
  constructor(series) {
    this.series = new Map(series.map(({ metric, count, points }) => [metric, { count, points: points.map(([step, value]) => [step, number(value)]) }]));
  }

  add(step, metrics) {
    for (const [metric, series] of this.series) {
      if (!(metric in metrics)) continue;
      this.drop(series, step);
      series.points.push([step, number(metrics[metric])]);
      series.count++;
      if (series.points.length > 2 * longest + spare) series.points.splice(longest, 1); // between the windows
      this.show(metric, series);
    }
  }

  drop(series, to) {
    const kept = series.points.filter(([step]) => step < to);
    series.count -= series.points.length - kept.length;
    series.points = kept;
  }

  show(metric, { count, points }) {
    const size = Math.min(longest, Math.floor(count / 2));
    if (size === 0) return;
    const first = mean(points.slice(0, size));
    const last = mean(points.slice(-size));
    const row = document.querySelector(`[data-window="${CSS.escape(metric)}"]`);
    if (!row) return;
    row.hidden = false;
    setText(row.querySelector(".first"), fixed(first));
    setText(row.querySelector(".last"), fixed(last));
    setText(row.querySelector(".change"), (last - first >= 0 ? "+" : "") + fixed(last - first));
    setText(document.getElementById("window-size"), String(size));
    document.getElementById("windows").hidden = false;
    document.getElementById("no-windows").hidden = true;
  }
}

function mean(points) {
  const finite = points.map(([, value]) => value).filter(Number.isFinite);
  return finite.reduce((sum, value) => sum + value, 0) / finite.length;
}
