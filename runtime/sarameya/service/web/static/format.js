// Formats numbers, sizes, times and totals as text. Pure.

const shown = { count: new Intl.NumberFormat("en"), rate: new Intl.NumberFormat("en", { maximumFractionDigits: 1 }) };

export const count = (value) => shown.count.format(value);
export const offset = (value) => (value < 0 ? "–" : shown.count.format(value));
export const rate = (value) => (value < 0 ? "–" : shown.rate.format(value));

export function bytes(value) {
  if (value < 0) return "–";
  let unit = 0;
  for (; value >= 1024 && unit < 4; unit++) value /= 1024;
  return `${shown.rate.format(value)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

export function age(seconds) {
  if (seconds < 0 || seconds === undefined) return "–";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

// Returns the time, with the date unless it is today.
export function clock(at) {
  const then = new Date(at * 1000), time = then.toLocaleTimeString("en-GB");
  return then.toDateString() === new Date().toDateString() ? time : `${then.toLocaleDateString("en-CA")} ${time}`;
}

// Returns the sum, with "≥" if some values are unknown.
export function total(values) {
  const known = values.filter((value) => value >= 0);
  if (!known.length) return "–";
  return (known.length < values.length ? "≥ " : "") + count(known.reduce((sum, value) => sum + value, 0));
}
