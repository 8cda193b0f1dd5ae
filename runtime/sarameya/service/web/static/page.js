// The status page: shows each second's status. Text from outside is inserted as text nodes only, never as HTML.
import { follow } from "./feed.js";
import * as plots from "./plots.js";
import { merge, nameOf, split } from "./reasons.js";
import { events, landings, members, partitions } from "./tables.js";
import { age, rate, total } from "./format.js";

const MAX_REASONS = 12, OLD_AFTER = 8;

const byId = (id) => document.getElementById(id);
const setText = (node, text) => { if (node.textContent !== text) node.textContent = text; };

// Values that change each second are outside the live region, so that screen readers do not announce them.
function head(status) {
  const states = [...new Set(status.members.map((member) => (member.failure ? "failed" : member.state)))].join(", ");
  const ready = status.stopping ? "stopping" : status.ready ? "ready" : "not ready";
  setText(byId("group"), status.group);
  setText(byId("version"), status.version);
  setText(byId("ready"), ready);
  byId("ready").className = `badge ${status.stopping ? "care" : status.ready ? "good" : "bad"}`;
  setText(byId("states"), `${states || "no member"}${status.stopping ? `, ${status.stopping}` : ""}`);
  const seconds = status.members.map((member) => member.seconds ?? -1).filter((value) => value >= 0);
  const generations = new Set(status.members.map((member) => member.generation ?? -1).filter((value) => value >= 0));
  setText(byId("since"), seconds.length ? `for ${age(Math.min(...seconds))}` : "");
  setText(byId("generation"), generations.size ? `generation ${[...generations].join(", ")}` : "");
  const title = `${ready} · ${status.group} · Sarameya`;
  if (document.title !== title) document.title = title;
}

function lines(section, all) {
  section.hidden = !all.length;
  const list = section.querySelector("ul"), text = all.join("\n");
  if (list.dataset.text === text) return;
  list.dataset.text = text;
  const rest = all.length - MAX_REASONS;
  const shown = [...all.slice(0, MAX_REASONS), ...(rest > 0 ? [`and ${rest} more; readyz has them all`] : [])];
  list.replaceChildren(...shown.map((line) => {
    const item = document.createElement("li");
    item.textContent = line;
    return item;
  }));
}

function show(status) {
  const rows = new Map(status.partitions.map((row) => [nameOf(row), row]));
  head(status);
  lines(byId("reasons"), merge(status.reasons, rows));
  // Remarks about a working partition change all the time. Only those about a paused one, or an overdue handler, are
  // shown.
  const isShown = (line) => {
    const found = split(line, rows);
    return !found || rows.get(found.name).activity === "paused" || Boolean(rows.get(found.name).overdue);
  };
  lines(byId("explained"), merge(status.explained.filter(isShown), rows));
  setText(byId("total-lag"), total(status.partitions.map((row) => row.committed_lag ?? -1)));
  setText(byId("total-records"), rate(status.point.records ?? 0));
  setText(byId("total-landed"), rate(status.point.landed ?? 0));
  members(status.members);
  partitions(status.partitions, new Set(status.reasons.map((line) => split(line, rows)?.name)));
  // These are sent only if there is something new.
  if (status.landings) landings(status.landings);
  if (status.events) events(status.events, status.members.length > 1);
  plots.add(status.point);
  plots.draw();
  showAge(status.age > OLD_AFTER ? status.age : null);
}

// `seconds`: time since the last update; null if updates arrive.
function showAge(seconds) {
  byId("connection").hidden = seconds === null;
  document.body.classList.toggle("old", seconds !== null);
  if (seconds !== null) setText(byId("silence"), `no update for ${age(seconds)}`);
}

follow({
  onUpdate: show,
  onSnapshot: (status) => { plots.replace(status.points); show(status); },
  onSilence: showAge,
});
addEventListener("resize", plots.draw);
