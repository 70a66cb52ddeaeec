// One event stream for all open pages of a browser: it opens only six connections to one server, and a stream for each
// page would soon use them all. This file runs as a shared worker, and in the page itself where a browser has none.

// Milliseconds after which a stream that the server has refused is asked for again.
const RETRY = 5000;

const ports = new Set();
// What any of the pages has asked for. Each page takes what it needs.
const kinds = new Set();
let stream = null;
let retry = null;
// The last change that every page has seen. Later ones may be told again.
let last = 0;

// A page sends `{ after, kinds }` to follow these kinds of changes after a number, or `{ leaves: true }`. It hears
// `{ number, kind, workspace }` of each change, and `{ state }`: open, lost or "logged out".
export function serve(port) {
  port.onmessage = ({ data }) => {
    if (data.leaves) ports.delete(port);
    else join(port, data);
    if (!ports.size) close();
  };
}

function join(port, { after, kinds: wanted }) {
  last = ports.size ? Math.min(last, after) : after;
  ports.add(port);
  for (const kind of wanted) kinds.add(kind);
  open();
}

function close() {
  clearTimeout(retry);
  stream?.close();
  stream = null;
}

function tell(message) {
  for (const port of ports) port.postMessage(message);
}

function open() {
  close();
  const query = new URLSearchParams({ workspace: "*", after: last });
  for (const kind of kinds) query.append("what", kind);
  const opened = new EventSource(`/api/v1/events?${query}`);
  stream = opened;
  const told = (event) => {
    const { number, what, workspace } = JSON.parse(event.data);
    last = number;
    tell({ number, kind: what, workspace });
  };
  for (const kind of kinds) opened.addEventListener(kind, told);
  opened.onopen = () => tell({ state: "open" });
  opened.onerror = async () => {
    // The browser tries again by itself, unless the server has answered with an error.
    if (opened.readyState === EventSource.CLOSED) retry = setTimeout(open, RETRY);
    const state = await stateOfServer();
    if (stream === opened && opened.readyState !== EventSource.OPEN) tell({ state });
  };
}

async function stateOfServer() {
  try {
    const answer = await fetch("/", { headers: { accept: "text/html" }, credentials: "same-origin", redirect: "manual" });
    if (answer.status === 401) return "logged out";
    return answer.status < 500 ? "waiting" : "lost";
  } catch {
    return "lost";
  }
}

self.onconnect = ({ ports: [port] }) => serve(port);
