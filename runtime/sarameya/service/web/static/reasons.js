// Reasons for the state of a service: finds the partition of a line, and merges equal lines of several partitions.

const NAMED = 3;

export const nameOf = (row) => `${row.topic}-${row.partition}`;

// Splits a line at the name of its partition; null if it has none. The name may follow those of a member and a worker:
// `10.0.0.7:8080: worker 1: orders-3: no progress`.
export function split(line, names) {
  const pieces = line.split(": ");
  const at = pieces.slice(0, 3).findIndex((piece) => names.has(piece));
  if (at < 0) return null;
  const before = pieces.slice(0, at).map((piece) => `${piece}: `).join("");
  return { before, name: pieces[at], rest: pieces.slice(at + 1).join(": ") };
}

// Merges lines that differ only in partitions and numbers, and shows the line with the largest first number.
export function merge(lines, names) {
  const groups = new Map();
  for (const line of new Set(lines)) {
    const found = split(line, names);
    const key = found ? `${found.before}: ${found.rest.replace(/\d[\d.,]*/g, "#")}` : line;
    groups.set(key, [...(groups.get(key) || []), found || { line }]);
  }
  return [...groups.values()].map((all) => {
    if (all[0].line !== undefined) return all[0].line;
    if (all.length === 1) return `${all[0].before}${all[0].name}: ${all[0].rest}`;
    const first = (one) => Number((one.rest.match(/\d+/) || ["0"])[0]);
    const worst = all.reduce((most, one) => (first(one) > first(most) ? one : most));
    const more = all.length > NAMED ? ` and ${all.length - NAMED} more` : "";
    const some = all.slice(0, NAMED).map((one) => one.name).join(", ");
    return `${all[0].before}${all.length} partitions (${some}${more}): ${worst.rest}`;
  });
}
