// The status page: what the service reports each second, put into the page. Foreign text becomes text nodes only.
import { follow } from "./feed.js";
import * as plots from "./plots.js";
import { folded, nameOf, parted } from "./reasons.js";
import { events, landings, members, partitions } from "./tables.js";
import { age, rate, total } from "./words.js";

const MOST_REASONS = 12, OLD_AFTER = 8;

const byId = (id) => document.getElementById(id);
const say = (node, text) => { if (node.textContent !== text) node.textContent = text; };

// What changes each second is outside of what screen readers announce.
function head(said) {
  const states = [...new Set(said.members.map((member) => (member.failure ? "failed" : member.state)))].join(", ");
  const ready = said.stopping ? "stopping" : said.ready ? "ready" : "not ready";
  say(byId("group"), said.group);
  say(byId("version"), said.version);
  say(byId("ready"), ready);
  byId("ready").className = `badge ${said.stopping ? "care" : said.ready ? "good" : "bad"}`;
  say(byId("states"), `${states || "no member"}${said.stopping ? `, ${said.stopping}` : ""}`);
  const seconds = said.members.map((member) => member.seconds ?? -1).filter((value) => value >= 0);
  const generations = new Set(said.members.map((member) => member.generation ?? -1).filter((value) => value >= 0));
  say(byId("since"), seconds.length ? `for ${age(Math.min(...seconds))}` : "");
  say(byId("generation"), generations.size ? `generation ${[...generations].join(", ")}` : "");
  const title = `${ready} · ${said.group} · Sarameya`;
  if (document.title !== title) document.title = title;
}

function lines(section, all) {
  section.hidden = !all.length;
  const list = section.querySelector("ul"), text = all.join("\n");
  if (list.dataset.said === text) return;
  list.dataset.said = text;
  const rest = all.length - MOST_REASONS;
  const shown = [...all.slice(0, MOST_REASONS), ...(rest > 0 ? [`and ${rest} more; readyz has them all`] : [])];
  list.replaceChildren(...shown.map((line) => {
    const item = document.createElement("li");
    item.textContent = line;
    return item;
  }));
}

function show(said) {
  const rows = new Map(said.partitions.map((row) => [nameOf(row), row]));
  head(said);
  lines(byId("reasons"), folded(said.reasons, rows));
  // What a row says of itself while it works comes and goes; that it is paused, or its handler overdue, stays.
  const stays = (line) => {
    const found = parted(line, rows);
    return !found || rows.get(found.name).activity === "paused" || Boolean(rows.get(found.name).overdue);
  };
  lines(byId("explained"), folded(said.explained.filter(stays), rows));
  say(byId("total-lag"), total(said.partitions.map((row) => row.committed_lag ?? -1)));
  say(byId("total-records"), rate(said.point.records ?? 0));
  say(byId("total-landed"), rate(said.point.landed ?? 0));
  members(said.members);
  partitions(said.partitions, new Set(said.reasons.map((line) => parted(line, rows)?.name)));
  // These are sent only if there is something new.
  if (said.landings) landings(said.landings);
  if (said.events) events(said.events, said.members.length > 1);
  plots.add(said.point);
  plots.draw();
  old(said.age > OLD_AFTER ? said.age : null);
}

// For how many seconds nothing was heard, null where all is well.
function old(seconds) {
  byId("connection").hidden = seconds === null;
  document.body.classList.toggle("old", seconds !== null);
  if (seconds !== null) say(byId("silence"), `nothing heard for ${age(seconds)}`);
}

follow({
  look: show,
  whole: (said) => { plots.replace(said.points); show(said); },
  silent: old,
});
addEventListener("resize", plots.draw);
