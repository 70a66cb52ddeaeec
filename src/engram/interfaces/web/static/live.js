// Follows the changes of the store and loads those parts of the page again that show what has changed.
import { loggedIn, loggedOut, reload } from "./load.js";
import { serve } from "./stream.js";

// Milliseconds in which changes are collected, the shortest time between two loads, and the time after one that failed.
const COLLECT = 150;
const REST = 700;
const RETRY = 3000;
// After something was forgotten, the whole content is loaded again, also what does not follow other changes.
const FORGOTTEN = "receipt";

// The stream that all pages share. Without shared workers the page has its own, and gives it up while it is hidden.
function connect() {
  try {
    return [new SharedWorker("/static/stream.js", { type: "module", name: "engram" }).port, true];
  } catch {
    const { port1, port2 } = new MessageChannel();
    serve(port2);
    return [port1, false];
  }
}

export function startLive() {
  const { dataset } = document.body;
  const pending = new Set();
  let isLoading = false;
  let isAway = false;
  let timer = null;
  let last = 0;

  // A page that may show something forgotten is veiled (data-veiled) until it was loaded again.
  const load = async () => {
    timer = null;
    const veiled = dataset.veiled;
    if (isLoading || isAway || (document.hidden && veiled === undefined)) return;
    const kinds = [...pending];
    pending.clear();
    const ids = veiled !== undefined || kinds.includes(FORGOTTEN) ? null : following(kinds);
    last = Date.now();
    if (ids?.length === 0) return;
    isLoading = true;
    try {
      await reload(ids);
      if (dataset.veiled === veiled) delete dataset.veiled;
    } catch {
      for (const kind of kinds) pending.add(kind);
      soon(RETRY);
    } finally {
      isLoading = false;
    }
    if (pending.size || dataset.veiled !== undefined) soon();
  };
  const soon = (least = COLLECT) => {
    timer ??= setTimeout(load, Math.max(least, REST - (Date.now() - last)));
  };
  let veils = 0;
  const veil = () => (dataset.veiled = String(++veils));

  const [port, isShared] = connect();
  let kinds = new Set();
  const join = () => {
    kinds = followed();
    port.postMessage({ after: Number(dataset.change), kinds: [...kinds] });
  };
  port.onmessage = ({ data }) => {
    if (data.state) return learn(data.state);
    dataset.change = String(data.number);
    if (data.workspace !== dataset.workspace) return;
    pending.add(data.kind);
    if (data.kind === FORGOTTEN) {
      document.dispatchEvent(new CustomEvent("engram:forgotten"));
      if (document.hidden) veil();
    }
    soon();
  };
  const learn = (state) => {
    dataset.stream = state;
    if (state === "open") loggedIn();
    if (state === "logged out") loggedOut();
  };
  // A part that is new may follow other kinds of changes.
  document.addEventListener("engram:replaced", () => {
    if ([...followed()].some((kind) => !kinds.has(kind))) join();
  });

  // A page that follows nothing for a while does not know what was forgotten meanwhile.
  const leave = () => {
    isAway = true;
    port.postMessage({ leaves: true });
    veil();
  };
  const comeBack = () => {
    isAway = false;
    join();
    soon(0);
  };
  // The browser may keep a page that is left, and stop one that was hidden for long.
  addEventListener("pagehide", leave);
  addEventListener("pageshow", (event) => {
    if (event.persisted) comeBack();
  });
  document.addEventListener("freeze", leave);
  document.addEventListener("resume", comeBack);
  document.addEventListener("visibilitychange", () => {
    if (!isShared) document.hidden ? leave() : comeBack();
    else if (!document.hidden && pending.size) soon();
  });
  if (isShared || !document.hidden) join();
  else leave();
}

const kindsOf = (part) => part.dataset.live.split(" ");
const followed = () => new Set([FORGOTTEN, ...[...document.querySelectorAll("[data-live]")].flatMap(kindsOf)]);
const following = (kinds) =>
  [...document.querySelectorAll("[data-live]")]
    .filter((part) => kindsOf(part).some((kind) => kinds.includes(kind)))
    .map((part) => part.id);
