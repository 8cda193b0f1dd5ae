// Members, partitions, landings and events. Foreign text becomes text nodes only.
import { age, bytes, clock, count, offset, rate } from "./words.js";
import { nameOf } from "./reasons.js";

const TONES = {
  fetching: "good", "in handler": "busy", landing: "busy", committing: "busy", starting: "busy", resetting: "care",
  paused: "care", "no room": "care", backpressured: "care", "giving up": "care", "not assigned": "care", retrying: "bad",
};

const byId = (id) => document.getElementById(id);
const say = (node, text) => { if (node.textContent !== text) node.textContent = text; };
const who = (row) => (row.host ? `${row.host} ${row.worker}` : String(row.worker));

function activity(row) {
  const most = row.attempts ? ` of ${row.attempts}` : "";
  const tries = row.attempt ? ` (try ${row.attempt}${most})` : "";
  const why = row.reason ? `: ${row.reason}` : "";
  const since = row.activity === "starting" || row.seconds < 0 ? "" : ` for ${age(row.seconds)}`;
  return `${row.activity}${tries}${since}${why}`;
}

// The key of a numbered row has its time, too: a worker that begins anew numbers from 1 again.
// Rows keep their elements from one look to the next, so that focus, selection and scrolling stay where they are.
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
      say(cell, text);
      if (cell.className !== (className || "")) cell.className = className || "";
    });
    const tone = row.querySelector(".bad") ? "bad" : "";
    if (row.className !== tone) row.className = tone;
  });
  [...body.rows].forEach((row) => shown.has(row) || row.remove());
  table.nextElementSibling.hidden = rows.length > 0;
}

export function members(rows) {
  say(byId("total-members"), count(rows.length));
  // Members that only Kafka reports may have the same name.
  fill(byId("members"), rows, (row) => `${who(row)}/${row.pid ? "" : row.member_id || ""}`, (row) => [
    [who(row), "", true],
    [row.failure ? `failed: ${row.failure}${row.restart ? `; ${row.restart}` : ""}` : row.state,
      `state ${row.failure ? "bad wide" : row.state === "stable" ? "good" : "care"}`],
    [age(row.seconds)], [offset(row.generation ?? -1), "number"], [offset(row.assigned ?? -1), "number"],
    [row.budget_bytes ? `${bytes(row.buffered_bytes)} of ${bytes(row.budget_bytes)}` : "–"],
    [row.assignor ? row.assignor + (row.is_leader ? " (leader)" : "") : "–"],
    [offset(row.coordinator ?? -1), "number"], [row.pid ? String(row.pid) : "–", "number"], [row.member_id || "–"],
  ]);
}

// First those that are named by a reason, or tried again: of many rows nobody looks at the last.
export function partitions(rows, stuck) {
  const tone = (row) => (stuck.has(nameOf(row)) || row.overdue ? "bad" : TONES[row.activity] || "");
  const sorted = [...rows].sort((a, b) => (tone(b) === "bad") - (tone(a) === "bad") ||
    (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : 0) || a.partition - b.partition);
  say(byId("total-partitions"), count(rows.length));
  fill(byId("partitions"), sorted, (row) => `${row.topic}/${row.partition}/${who(row)}`, (row) => [
    [row.topic, "", true], [String(row.partition), "number"], [activity(row), `wide state ${tone(row)}`],
    [offset(row.committed_lag ?? -1), "number"], [offset(row.landed_lag ?? -1), "number"],
    [age(row.unlanded_seconds ?? -1), "number"], [offset(row.activity.endsWith("assigned") ? -1 : row.lag), "number"],
    [rate(row.records_a_second), "number"],
    [offset(row.position), "number"], [offset(row.high_water_mark), "number"],
    [offset(row.committed), "number"], [offset(row.landed), "number"], [who(row), "number"],
  ]);
}

// Of rows that stay as they are: who reported them, if there are several.
// A service has as many from its first look to its last, and of one that is started again all rows are others.
const reporter = (row, several) => (row.host ? who(row) : several ? `worker ${row.worker}` : "");

export function landings(rows) {
  fill(byId("landings"), rows.slice(0, 50), (row) => `${who(row)}/${row.at}/${row.number}`, (row) => {
    const facts = row.landing;
    return [
      [clock(row.at), "", true], [facts.topic], [String(facts.partition), "number"],
      row.kind === "Landed" ? ["landed", "state good"] : [`failed: ${row.text}`, "wide state bad"],
      [offset(facts.rows), "number"], [bytes(facts.size_bytes), "number"],
      [facts.seconds < 0 ? "–" : facts.seconds.toFixed(2), "number"],
      [`${offset(facts.from_offset)} to ${offset(facts.to_offset)}`, "number"], [who(row), "number"],
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

function folding(title, content) {
  const details = document.createElement("details"), summary = document.createElement("summary");
  summary.textContent = title;
  details.append(summary, content);
  return details;
}

function happening(event, several) {
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
    item.append(folding("what it is made of", list));
  }
  if (event.stack) {
    const stack = document.createElement("pre");
    stack.textContent = event.stack;
    item.append(folding("where it stands", stack));
  }
  return item;
}

export function events(rows, several) {
  const list = byId("events");
  const known = new Map([...list.children].map((item) => [item.dataset.key, item]));
  rows.slice(0, 100).forEach((event, index) => {
    const name = `${who(event)}/${event.at}/${event.number}`;
    const item = known.get(name) || happening(event, several);
    known.delete(name);
    if (list.children[index] !== item) list.insertBefore(item, list.children[index] || null);
  });
  known.forEach((item) => item.remove());
  list.nextElementSibling.hidden = rows.length > 0;
}

