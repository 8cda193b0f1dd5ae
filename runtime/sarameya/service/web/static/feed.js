// Follows the service: updates come from /events. /status.json is requested whenever a connection opens, since updates
// were missed before. A hidden page keeps no connection: a browser allows six per host, over all tabs.

const SILENT_AFTER = 5, RETRY_AFTER = 3, RECONNECT_AFTER = 20;  // seconds

// `onUpdate` is called with each update, `onSnapshot` with the document of /status.json (all plotted points), and
// `onSilence` with the seconds since the last update.
export function follow({ onUpdate, onSnapshot, onSilence }) {
  let feed = null, lastUpdate = 0, openedAt = 0, retryTimer = 0, isLost = false;
  const now = () => Date.now() / 1000;

  // A snapshot that arrives after `source` was replaced is ignored.
  async function fetchSnapshot(source) {
    try {
      const response = await fetch("status.json", { signal: AbortSignal.timeout(SILENT_AFTER * 1000) });
      if (!response.ok) throw new Error(response.statusText);
      const snapshot = await response.json();
      if (source !== feed) return;
      lastUpdate = now();
      isLost = false;
      onSnapshot(snapshot);
    } catch {
      const retry = () => { if (source === feed && source.readyState === EventSource.OPEN) fetchSnapshot(source); };
      setTimeout(retry, RETRY_AFTER * 1000);
    }
  }

  function close() {
    clearTimeout(retryTimer);
    if (feed) feed.close();
    feed = null;
  }

  function open() {
    close();
    openedAt = now();
    const source = feed = new EventSource("events");
    source.onopen = () => fetchSnapshot(source);
    source.onmessage = (event) => {
      lastUpdate = now();
      isLost = false;
      onUpdate(JSON.parse(event.data));
    };
    source.onerror = () => {
      isLost = true;
      onSilence(now() - lastUpdate);
      // After a status other than 200 (of a proxy, or with too many followers) the browser does not reconnect. So
      // request /status.json, and retry later.
      if (source.readyState === EventSource.CLOSED) {
        fetchSnapshot(source);
        retryTimer = setTimeout(open, RETRY_AFTER * 1000);
      }
    };
  }

  function checkSilence() {
    if (!feed) return;
    const quiet = now() - lastUpdate;
    if (isLost || quiet > SILENT_AFTER) onSilence(quiet);
    // If the server vanishes without closing the connection, the connection stays open for ever.
    if (quiet > RECONNECT_AFTER && now() - openedAt > RECONNECT_AFTER) open();
  }

  function onVisibilityChange() {
    if (document.hidden) return close();
    lastUpdate = now();
    open();
  }

  document.addEventListener("visibilitychange", onVisibilityChange);
  setInterval(checkSilence, 1000);
  onVisibilityChange();
}
