// Members, partitions, landings and events. Text from outside is inserted as text nodes only, never as HTML.
import { age, bytes, clock, count, offset, rate } from "./format.js";
import { nameOf } from "./reasons.js";

const TONES = {
  fetching: "good", "in handler": "busy", landing: "busy", committing: "busy", starting: "busy", resetting: "care",
  paused: "care", "no room": "care", backpressured: "care", "giving up": "care", "not assigned": "care",
  retrying: "bad",
};

const NAMES = { "giving up": "revoking" };  // of activities, where they differ from those in /status.json

const byId = (id) => document.getElementById(id);
const setText = (node, text) => { if (node.textContent !== text) node.textContent = text; };
const memberName = (row) => (row.host ? `${row.host} ${row.worker}` : String(row.worker));

function activity(row) {
  const most = row.attempts ? ` of ${row.attempts}` : "";
  const attempt = row.attempt ? ` (attempt ${row.attempt}${most})` : "";
  const why = row.reason ? `: ${row.reason}` : "";
  const since = row.activity === "starting" || row.seconds < 0 ? "" : ` for ${age(row.seconds)}`;
  return `${NAMES[row.activity] || row.activity}${attempt}${since}${why}`;
}

// The key of a numbered row contains its time, too: a restarted worker numbers its rows from 1 again.
// Rows keep their elements from one update to the next, so that focus, selection and scrolling stay where they are.
function fill(table, rows, key, cells) {
  const body = table.tBodies[0];
  const old = new Map([...body.rows].map((row) => [row.dataset.key, row])), shown = new Set();
  rows.forEach((data, index) => {
    const name = key(data);
    let row = old.get(name);
    if (!row) { row = document.createElement("tr"); row.dataset.key = name; }
    old.delete(name);
    shown.add(row);
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] || null);
    cells(data).forEach(([text, className, isHeader], number) => {
      let cell = row.cells[number];
      if (!cell) {
        cell = document.createElement(isHeader ? "th" : "td");
        if (isHeader) cell.scope = "row";
        row.append(cell);
      }
      setText(cell, text);
      if (cell.className !== (className || "")) cell.className = className || "";
    });
    const tone = row.querySelector(".bad") ? "bad" : "";
    if (row.className !== tone) row.className = tone;
  });
  [...body.rows].forEach((row) => shown.has(row) || row.remove());
  table.nextElementSibling.hidden = rows.length > 0;
}

export function members(rows) {
  setText(byId("total-members"), count(rows.length));
  // Members that only Kafka reports may have the same name.
  fill(byId("members"), rows, (row) => `${memberName(row)}/${row.pid ? "" : row.member_id || ""}`, (row) => [
    [memberName(row), "", true],
    [row.failure ? `failed: ${row.failure}${row.restart ? `; ${row.restart}` : ""}` : row.state,
      `state ${row.failure ? "bad wide" : row.state === "stable" ? "good" : "care"}`],
    [age(row.seconds)], [offset(row.generation ?? -1), "number"], [offset(row.assigned ?? -1), "number"],
    [row.budget_bytes ? `${bytes(row.buffered_bytes)} of ${bytes(row.budget_bytes)}` : "–"],
    [row.assignor ? row.assignor + (row.is_leader ? " (leader)" : "") : "–"],
    [offset(row.coordinator ?? -1), "number"], [row.pid ? String(row.pid) : "–", "number"], [row.member_id || "–"],
  ]);
}

// Partitions with a problem come first, so that they are seen in a long table.
export function partitions(rows, stuck) {
  const tone = (row) => (stuck.has(nameOf(row)) || row.overdue ? "bad" : TONES[row.activity] || "");
  const sorted = [...rows].sort((a, b) => (tone(b) === "bad") - (tone(a) === "bad") ||
    (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : 0) || a.partition - b.partition);
  setText(byId("total-partitions"), count(rows.length));
  fill(byId("partitions"), sorted, (row) => `${row.topic}/${row.partition}/${memberName(row)}`, (row) => [
    [row.topic, "", true], [String(row.partition), "number"], [activity(row), `wide state ${tone(row)}`],
    [offset(row.committed_lag ?? -1), "number"], [offset(row.landed_lag ?? -1), "number"],
    [age(row.unlanded_seconds ?? -1), "number"], [offset(row.activity.endsWith("assigned") ? -1 : row.lag), "number"],
    [rate(row.records_a_second), "number"],
    [offset(row.position), "number"], [offset(row.high_water_mark), "number"],
    [offset(row.committed), "number"], [offset(row.landed), "number"], [memberName(row), "number"],
  ]);
}

// Name of the worker that reported a row, if there are several. The number of workers of a service does not change.
const reporter = (row, several) => (row.host ? memberName(row) : several ? `worker ${row.worker}` : "");

export function landings(rows) {
  fill(byId("landings"), rows.slice(0, 50), (row) => `${memberName(row)}/${row.at}/${row.number}`, (row) => {
    const facts = row.landing;
    return [
      [clock(row.at), "", true], [facts.topic], [String(facts.partition), "number"],
      row.kind === "Landed" ? ["landed", "state good"] : [`failed: ${row.text}`, "wide state bad"],
      [offset(facts.rows), "number"], [bytes(facts.size_bytes), "number"],
      [facts.seconds < 0 ? "–" : facts.seconds.toFixed(2), "number"],
      [`${offset(facts.from_offset)} to ${offset(facts.to_offset)}`, "number"], [memberName(row), "number"],
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

function foldedItem(title, content) {
  const details = document.createElement("details"), summary = document.createElement("summary");
  summary.textContent = title;
  details.append(summary, content);
  return details;
}

function eventItem(event, several) {
  const item = document.createElement("li");
  item.dataset.key = `${memberName(event)}/${event.at}/${event.number}`;
  const time = document.createElement("time");
  time.dateTime = new Date(event.at * 1000).toISOString();
  time.textContent = clock(event.at);
  const text = document.createElement("span");
  text.className = { warning: "care", error: "bad" }[event.level] || "";
  // The kind of event, then its fields without the group, which the page shows.
  const [kind, ...rest] = event.text.replace(`: group=${byId("group").textContent} `, ": ").split(": ");
  const first = document.createElement("b");
  first.textContent = kind;
  const by = reporter(event, several);
  if (by && !kind.startsWith(`${by} `)) {
    const name = document.createElement("span");
    name.className = "faint";
    name.textContent = `${by} `;
    text.append(name);
  }
  text.append(first, rest.length ? `: ${rest.join(": ")}` : "");
  item.append(time, text);
  if (event.tree && event.tree.inner.length) {
    const list = document.createElement("ul");
    list.append(tree(event.tree));
    item.append(foldedItem("causes", list));
  }
  if (event.stack) {
    const stack = document.createElement("pre");
    stack.textContent = event.stack;
    item.append(foldedItem("stack", stack));
  }
  return item;
}

export function events(rows, several) {
  const list = byId("events");
  const known = new Map([...list.children].map((item) => [item.dataset.key, item]));
  rows.slice(0, 100).forEach((event, index) => {
    const name = `${memberName(event)}/${event.at}/${event.number}`;
    const item = known.get(name) || eventItem(event, several);
    known.delete(name);
    if (list.children[index] !== item) list.insertBefore(item, list.children[index] || null);
  });
  known.forEach((item) => item.remove());
  list.nextElementSibling.hidden = rows.length > 0;
}

