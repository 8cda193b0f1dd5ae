// Lag and throughput of the last minutes, in SVG.
import { age, rate } from "./format.js";

const KEPT_POINTS = 900, MAX_GAP = 8;  // a longer gap (in seconds) between two points interrupts the line
const PLOTS = { lag: "committed_lag", records: "records", landed: "landed" };  // id of the plot -> key of its values
const NAMES = ["at", ...Object.values(PLOTS)];
let points = Object.fromEntries(NAMES.map((name) => [name, []]));

const setText = (node, text) => { if (node.textContent !== text) node.textContent = text; };

// Replaces all points.
export function replace(all) {
  points = all;
}

export function add(point) {
  if (point.at === undefined || point.at <= points.at[points.at.length - 1]) return;
  for (const name of NAMES) {
    points[name].push(point[name]);
    if (points[name].length > KEPT_POINTS) points[name].shift();
  }
}

export function draw() {
  if (!points.at.length) return;
  for (const [id, name] of Object.entries(PLOTS)) plot(document.getElementById(`plot-${id}`), points[name], points.at);
}

function drawn(svg, name, className, attributes, text) {
  let node = svg.querySelector(`.${className}`);
  if (!node) {
    node = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", name));
    node.classList.add(...className.split("."));
  }
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) setText(node, text);
}

// Yields runs of indices that one line connects: all values are known (not -1), without a gap in time.
function* stretches(values, at) {
  let stretch = [];
  for (let n = 0; n < at.length; n++) {
    const breaks = values[n] < 0 || (stretch.length && at[n] - at[n - 1] > MAX_GAP);
    if (breaks && stretch.length) { yield stretch; stretch = []; }
    if (values[n] >= 0) stretch.push(n);
  }
  if (stretch.length) yield stretch;
}

// One unit of the drawing is one pixel, so that lines and text keep their shapes.
function plot(svg, values, at) {
  const width = svg.clientWidth || 300, height = svg.clientHeight || 100, top = 18, bottom = height - 16;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const most = Math.max(...values), scale = Math.max(most, 1);
  const from = at[0], span = Math.max(at[at.length - 1] - from, 1);
  const x = (n) => (((at[n] - from) / span) * width).toFixed(1);
  const y = (n) => (bottom - (values[n] / scale) * (bottom - top)).toFixed(1);
  let line = "", area = "";
  for (const stretch of stretches(values, at)) {
    const path = stretch.map((n) => `${x(n)},${y(n)}`).join(" L");
    line += `M${path}${stretch.length === 1 ? " h0.1" : ""}`;
    area += `M${x(stretch[0])},${bottom} L${path} L${x(stretch[stretch.length - 1])},${bottom}Z`;
  }
  drawn(svg, "line", "grid.zero", { x1: 0, x2: width, y1: bottom, y2: bottom });
  drawn(svg, "line", "grid.most", { x1: 0, x2: width, y1: top, y2: top });
  drawn(svg, "path", "area", { d: area });
  drawn(svg, "path", "line", { d: line });
  drawn(svg, "text", "label.high", { x: 0, y: top - 5 }, `max ${rate(most)}`);
  drawn(svg, "text", "label.then", { x: 0, y: height - 3 }, `${age(Math.round(at[at.length - 1] - from))} ago`);
  drawn(svg, "text", "label.now", { x: width, y: height - 3, "text-anchor": "end" }, "now");
  const caption = svg.parentElement.querySelector("figcaption").textContent, last = values[values.length - 1];
  svg.setAttribute("aria-label", `${caption}: ${last < 0 ? "unknown" : rate(last)} now, max ${rate(most)}`);
}
