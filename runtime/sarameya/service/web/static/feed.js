// What the service reports: each look by /events, and the whole by /status.json whenever a connection opens, since looks
// were missed before. Nothing is asked for while nobody looks: a browser has six connections to a host, of all its tabs.

const SILENT_AFTER = 5, AGAIN_AFTER = 3, ANEW_AFTER = 20;  // seconds

// `look` is called with each look, `whole` with one that has all that is plotted, and `silent` with the seconds since
// the last one.
export function follow({ look, whole, silent }) {
  let feed = null, heardAt = 0, openedAt = 0, again = 0, isLost = false;
  const now = () => Date.now() / 1000;

  async function fetchWhole(asking) {
    try {
      const answer = await fetch("status.json", { signal: AbortSignal.timeout(SILENT_AFTER * 1000) });
      if (!answer.ok) throw new Error(answer.statusText);
      const said = await answer.json();
      if (asking !== feed) return;
      heardAt = now();
      isLost = false;
      whole(said);
    } catch {
      setTimeout(() => { if (asking === feed && asking.readyState === EventSource.OPEN) fetchWhole(asking); }, AGAIN_AFTER * 1000);
    }
  }

  function close() {
    clearTimeout(again);
    if (feed) feed.close();
    feed = null;
  }

  function open() {
    close();
    openedAt = now();
    const opened = feed = new EventSource("events");
    opened.onopen = () => fetchWhole(opened);
    opened.onmessage = (event) => {
      heardAt = now();
      isLost = false;
      look(JSON.parse(event.data));
    };
    opened.onerror = () => {
      isLost = true;
      silent(now() - heardAt);
      // What is answered by another status than 200, as proxies do, the browser does not ask for again. Where too many
      // pages follow already, this one asks for the whole now and then.
      if (opened.readyState === EventSource.CLOSED) {
        fetchWhole(opened);
        again = setTimeout(open, AGAIN_AFTER * 1000);
      }
    };
  }

  function watch() {
    if (!feed) return;
    const quiet = now() - heardAt;
    if (isLost || quiet > SILENT_AFTER) silent(quiet);
    // A connection whose other end has gone without a word stays open for ever.
    if (quiet > ANEW_AFTER && now() - openedAt > ANEW_AFTER) open();
  }

  function turn() {
    if (document.hidden) return close();
    heardAt = now();
    open();
  }

  document.addEventListener("visibilitychange", turn);
  setInterval(watch, 1000);
  turn();
}
