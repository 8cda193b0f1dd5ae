// The status page: what /events says each second, put into the tables. Foreign text becomes text nodes only.
"use strict";

const KEPT_POINTS = 900, MOST_REASONS = 12;
const points = { at: [], lag: [], records: [], landed: [] };
const shown = { count: new Intl.NumberFormat("en"), rate: new Intl.NumberFormat("en", { maximumFractionDigits: 1 }) };
const TONES = {
  fetching: "good", "in handler": "busy", landing: "busy", committing: "busy", starting: "busy", resetting: "care",
  paused: "care", "no room": "care", backpressured: "care", "giving up": "care", retrying: "bad",
};

const byId = (id) => document.getElementById(id);
const say = (node, text) => { if (node.textContent !== text) node.textContent = text; };
const offset = (value) => (value < 0 ? "–" : shown.count.format(value));

function bytes(value) {
  if (value < 0) return "–";
  let unit = 0;
  for (; value >= 1024 && unit < 4; unit++) value /= 1024;
  return `${shown.rate.format(value)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

function age(seconds) {
  if (seconds < 0 || seconds === undefined) return "–";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

// With the day, where it is not today.
function clock(at) {
  const then = new Date(at * 1000), time = then.toLocaleTimeString("en-GB");
  return then.toDateString() === new Date().toDateString() ? time : `${then.toLocaleDateString("en-CA")} ${time}`;
}

function activity(row) {
  const tries = row.attempt ? ` (try ${row.attempt})` : "";
  const why = row.reason ? `: ${row.reason}` : "";
  const since = row.activity === "starting" || row.seconds < 0 ? "" : ` for ${age(row.seconds)}`;
  return `${row.activity}${tries}${since}${why}`;
}

// What is numbered is told apart by its time, too: a worker that begins anew numbers from 1 again.
// Rows keep their elements from one look to the next, so that focus, selection and scrolling stay where they are.
function fill(table, rows, key, cells) {
  const body = table.tBodies[0];
  const old = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  rows.forEach((data, index) => {
    const name = key(data);
    let row = old.get(name);
    if (!row) { row = document.createElement("tr"); row.dataset.key = name; }
    old.delete(name);
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] || null);
    cells(data).forEach(([text, className, isHeader], number) => {
      let cell = row.cells[number];
      if (!cell) {
        cell = document.createElement(isHeader ? "th" : "td");
        if (isHeader) cell.scope = "row";
        row.append(cell);
      }
      say(cell, text);
      if (cell.className !== (className || "")) cell.className = className || "";
    });
    const tone = row.querySelector(".bad") ? "bad" : "";
    if (row.className !== tone) row.className = tone;
  });
  old.forEach((row) => row.remove());
  table.nextElementSibling.hidden = rows.length > 0;
}

const who = (row) => (row.host ? `${row.host} ${row.worker}` : String(row.worker));

function members(rows) {
  say(byId("total-members"), shown.count.format(rows.length));
  fill(byId("members"), rows, who, (row) => [
    [who(row), "", true],
    [row.failure ? `failed: ${row.failure}` : row.state,
      `state ${row.failure ? "bad wide" : row.state === "stable" ? "good" : "care"}`],
    [age(row.seconds)], [offset(row.generation ?? -1), "number"], [offset(row.assigned ?? -1), "number"],
    [row.budget_bytes ? `${bytes(row.buffered_bytes)} of ${bytes(row.budget_bytes)}` : "–"],
    [row.assignor ? row.assignor + (row.is_leader ? " (leader)" : "") : "–"],
    [offset(row.coordinator ?? -1), "number"], [row.pid ? String(row.pid) : "–", "number"], [row.member_id || "–"],
  ]);
}

function partitions(rows) {
  const sorted = [...rows].sort((a, b) =>
    (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : 0) || a.partition - b.partition);
  say(byId("total-partitions"), shown.count.format(rows.length));
  fill(byId("partitions"), sorted, (row) => `${row.topic}/${row.partition}/${who(row)}`, (row) => [
    [row.topic, "", true], [String(row.partition), "number"],
    [activity(row), `wide state ${TONES[row.activity] || ""}`],
    [offset(row.lag), "number"], [row.records_a_second < 0 ? "–" : shown.rate.format(row.records_a_second), "number"],
    [offset(row.position), "number"], [offset(row.high_water_mark), "number"],
    [offset(row.committed), "number"], [offset(row.landed), "number"], [who(row), "number"],
  ]);
}

function landings(rows) {
  fill(byId("landings"), rows.slice(0, 50), (row) => `${who(row)}/${row.at}/${row.number}`, (row) => {
    const facts = row.landing;
    return [
      [clock(row.at), "", true], [facts.topic], [String(facts.partition), "number"],
      row.kind === "Landed" ? ["landed", "state good"] : [`failed: ${row.text}`, "wide state bad"],
      [offset(facts.rows), "number"], [bytes(facts.size_bytes), "number"],
      [facts.seconds < 0 ? "–" : facts.seconds.toFixed(2), "number"],
      [`${offset(facts.from_offset)} to ${offset(facts.to_offset)}`, "number"],
    ];
  });
}

function tree(error) {
  const item = document.createElement("li");
  item.append(error.text);
  if (error.inner.length) {
    const list = document.createElement("ul");
    list.append(...error.inner.map(tree));
    item.append(list);
  }
  return item;
}

function happening(event) {
  const item = document.createElement("li");
  item.dataset.key = `${who(event)}/${event.at}/${event.number}`;
  const time = document.createElement("time");
  time.dateTime = new Date(event.at * 1000).toISOString();
  time.textContent = clock(event.at);
  const text = document.createElement("span");
  text.className = { warning: "care", error: "bad" }[event.level] || "";
  // What happened, and then its particulars; the group is that of the page.
  const [kind, ...rest] = event.text.replace(`: group=${byId("group").textContent} `, ": ").split(": ");
  const first = document.createElement("b");
  first.textContent = kind;
  text.append(first, rest.length ? `: ${rest.join(": ")}` : "");
  item.append(time, text);
  if (event.tree && event.tree.inner.length) {
    const details = document.createElement("details");
    const summary = document.createElement("summary");
    summary.textContent = "what it is made of";
    const list = document.createElement("ul");
    list.append(tree(event.tree));
    details.append(summary, list);
    item.append(details);
  }
  return item;
}

function events(rows) {
  const list = byId("events");
  const known = new Map([...list.children].map((item) => [item.dataset.key, item]));
  rows.slice(0, 100).forEach((event, index) => {
    const name = `${who(event)}/${event.at}/${event.number}`;
    const item = known.get(name) || happening(event);
    known.delete(name);
    if (list.children[index] !== item) list.insertBefore(item, list.children[index] || null);
  });
  known.forEach((item) => item.remove());
  list.nextElementSibling.hidden = rows.length > 0;
}

function drawn(svg, name, className, attributes, text) {
  let node = svg.querySelector(`.${className}`);
  if (!node) {
    node = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", name));
    node.classList.add(...className.split("."));
  }
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) say(node, text);
}

// In the pixels that there are, so that lines and text keep their shapes.
function plot(id, values, at) {
  const svg = byId(id);
  const width = svg.clientWidth || 300, height = svg.clientHeight || 100, top = 18, bottom = height - 16;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const most = Math.max(...values), scale = Math.max(most, 1);
  const from = at[0], span = Math.max(at[at.length - 1] - from, 1);
  const path = values.map((value, n) =>
    `${(((at[n] - from) / span) * width).toFixed(1)},${(bottom - (value / scale) * (bottom - top)).toFixed(1)}`);
  const end = path[path.length - 1].split(",")[0];
  drawn(svg, "line", "grid.zero", { x1: 0, x2: width, y1: bottom, y2: bottom });
  drawn(svg, "line", "grid.most", { x1: 0, x2: width, y1: top, y2: top });
  drawn(svg, "polygon", "area", { points: `0,${bottom} ${path.join(" ")} ${end},${bottom}` });
  drawn(svg, "polyline", "line", { points: path.join(" ") });
  drawn(svg, "text", "label.high", { x: 0, y: top - 5 }, `at most ${shown.rate.format(most)}`);
  drawn(svg, "text", "label.then", { x: 0, y: height - 3 }, `${age(Math.round(at[at.length - 1] - from))} ago`);
  drawn(svg, "text", "label.now", { x: width, y: height - 3, "text-anchor": "end" }, "now");
  const caption = svg.parentElement.querySelector("figcaption").textContent;
  const last = values[values.length - 1];
  svg.setAttribute("aria-label", `${caption}: ${shown.rate.format(last)} now, at most ${shown.rate.format(most)}`);
}

function plots() {
  if (!points.at.length) return;
  for (const name of ["lag", "records", "landed"]) plot(`plot-${name}`, points[name], points.at);
}

function add(point) {
  if (!point || point.at === undefined || point.at <= points.at[points.at.length - 1]) return;
  for (const name of Object.keys(points)) {
    points[name].push(point[name]);
    if (points[name].length > KEPT_POINTS) points[name].shift();
  }
}

function show(said) {
  say(byId("group"), said.group);
  say(byId("version"), said.version);
  const states = [...new Set(said.members.map((member) => (member.failure ? "failed" : member.state)))].join(", ");
  const ready = said.stopping ? "stopping" : said.ready ? "ready" : "not ready";
  say(byId("ready"), ready);
  byId("ready").className = `badge ${said.stopping ? "care" : said.ready ? "good" : "bad"}`;
  say(byId("states"), `${states || "no member"}${said.stopping ? `, ${said.stopping}` : ""}`);
  const title = `${ready} · ${said.group} · Sarameya`;
  if (document.title !== title) document.title = title;
  const reasons = byId("reasons");
  reasons.hidden = !said.reasons.length;
  const list = reasons.querySelector("ul");
  if (list.dataset.said !== said.reasons.join("\n")) {
    list.dataset.said = said.reasons.join("\n");
    const rest = said.reasons.length - MOST_REASONS;
    const lines = [...said.reasons.slice(0, MOST_REASONS), ...(rest > 0 ? [`and ${rest} more, which readyz tells`] : [])];
    list.replaceChildren(...lines.map((reason) => {
      const item = document.createElement("li");
      item.textContent = reason;
      return item;
    }));
  }
  add(said.point);
  const sum = (rows, field) => rows.reduce((total, row) => total + Math.max(row[field] || 0, 0), 0);
  say(byId("total-lag"), shown.count.format(sum(said.partitions, "lag")));
  say(byId("total-records"), shown.rate.format(said.point.records ?? 0));
  say(byId("total-landed"), shown.rate.format(said.point.landed ?? 0));
  members(said.members);
  partitions(said.partitions);
  landings(said.landings);
  events(said.events);
  plots();
}

function answers(yes) {
  byId("connection").hidden = yes;
  document.body.classList.toggle("old", !yes);
}

async function begin() {
  try {
    const said = await (await fetch("status.json")).json();
    Object.assign(points, said.points);
    show(said);
  } catch { answers(false); }
  const feed = new EventSource("events");
  feed.onmessage = (event) => { answers(true); show(JSON.parse(event.data)); };
  feed.onerror = () => answers(false);
}

begin();
