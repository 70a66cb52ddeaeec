// Keeps ages true while the page is open, and shows the local time when one points at a time.
// The same steps as on the server. After a week the day says more.
const STEPS = [
  [86400, "day"],
  [3600, "hour"],
  [60, "minute"],
];
const AGES = 7 * 86400;
// The store's clock may differ from the browser's.
const skew = Date.now() - Date.parse(document.body.dataset.now ?? new Date().toISOString());

export function age(seconds) {
  if (seconds < 60) return "just now";
  const [unit, name] = STEPS.find(([unit]) => seconds >= unit);
  const count = Math.floor(seconds / unit);
  if (name === "day" && count === 1) return "yesterday";
  return `${count} ${name}${count === 1 ? "" : "s"} ago`;
}

// The times in this part of a page.
export function updateTimes(part = document) {
  const now = Date.now() - skew;
  for (const time of part.querySelectorAll("time[datetime]")) {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) continue;
    time.title = new Date(at).toLocaleString();
    if (at > now + 60000 || !/ ago$|^just now$|^yesterday$/.test(time.textContent)) continue;
    const seconds = (now - at) / 1000;
    const shown = seconds < AGES ? age(seconds) : time.dateTime.slice(0, 10);
    if (time.textContent !== shown) time.textContent = shown;
  }
}

export function startTimes() {
  updateTimes();
  setInterval(updateTimes, 20000);
}
