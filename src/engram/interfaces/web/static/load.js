// Loads a page of this server and puts parts of it in the place of those that are shown. What the person has typed stays.
import { pageAddress } from "./addresses.js";
import { element } from "./dialogs.js";
import { hasUnsent, unsent } from "./fields.js";
import { keepTyped } from "./kept.js";
import { hiddenValues } from "./stored.js";
import { updateTimes } from "./times.js";

export async function fetchPage(address) {
  const answer = await fetch(address, { headers: { accept: "text/html" }, credentials: "same-origin" });
  if (answer.status === 401) {
    loggedOut();
    return null;
  }
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

export const LOGGED_OUT = "You are logged out. Log in in another tab, then try again.";
export const loginLink = () => element("a", { text: "Log in", href: "/login", target: "_blank", rel: "noopener" });

// A page of somebody who is logged out goes away, unless it holds a text that would be lost.
export function loggedOut() {
  const here = location.pathname + location.search + location.hash;
  if (!hasUnsent(document)) location.assign(`/login?${new URLSearchParams({ next: here })}`);
  else if (!document.getElementById("logged-out")) {
    const made = element("p", { text: `${LOGGED_OUT} `, className: "notice bad", id: "logged-out" }, loginLink());
    document.getElementById("notices").append(made);
  }
}

export const loggedIn = () => document.getElementById("logged-out")?.remove();

// Replaces the parts with these ids. `acting` is the form that was just sent. It is replaced too.
export function replaceParts(page, ids, acting = null) {
  const changed = ids.filter((id) => replacePart(page, id, acting));
  if (changed.length) document.dispatchEvent(new CustomEvent("engram:replaced"));
}

// Replaces one part, but for the forms in it that hold something unsent: they get the place of the same form in the new
// part. Whether anything has changed.
function replacePart(page, id, acting) {
  const shown = document.getElementById(id);
  const fresh = page.getElementById(id);
  if (!shown || !fresh) return false;
  // Otherwise no part with a time would ever be the same.
  for (const part of [shown, fresh]) updateTimes(part);
  if (shown.isEqualNode(fresh)) return false;
  const active = document.activeElement;
  const kept = unsent(shown, acting).map((form) => [form, sameForm(form, shown, fresh)]);
  const focus = shown.contains(active) ? path(active) : null;
  keepOpen(shown, fresh);
  keepUnfolded(shown, fresh, acting);
  const inUse = kept.find(([form, same]) => same && form.contains(active));
  for (const [form, same] of kept) if (form !== inUse?.[0]) same?.replaceWith(form);
  if (!inUse || !replaceAround(shown, fresh, ...inUse)) {
    inUse?.[1].replaceWith(inUse[0]);
    shown.replaceWith(fresh);
    if (fresh.contains(active)) active.focus({ preventScroll: true });
    else if (focus) fresh.querySelector(focus)?.focus();
  }
  for (const [form, same] of kept) if (!same) keepTyped(form);
  return true;
}

// Makes a part like the new one without moving the form that the person is typing in: that would end a word that an
// input method composes, and the undo of the field. False if the form is not at the same place in both.
function replaceAround(shown, fresh, form, same) {
  const [old, made] = [way(shown, form), way(fresh, same)];
  if (old.length !== made.length || old.some((each, depth) => each.localName !== made[depth].localName)) return false;
  old.slice(0, -1).forEach((each, depth) => {
    copyAttributes(made[depth], each);
    const inner = old[depth + 1];
    for (const node of [...each.childNodes]) if (node !== inner) node.remove();
    const nodes = [...made[depth].childNodes];
    const place = nodes.indexOf(made[depth + 1]);
    inner.before(...nodes.slice(0, place));
    inner.after(...nodes.slice(place + 1));
  });
  return true;
}

// The elements from a part to one in it.
function way(part, inner) {
  const found = [inner];
  while (found[0] !== part) found.unshift(found[0].parentElement);
  return found;
}

function copyAttributes(from, to) {
  for (const { name } of [...to.attributes]) if (!from.hasAttribute(name)) to.removeAttribute(name);
  for (const { name, value } of from.attributes) if (to.getAttribute(name) !== value) to.setAttribute(name, value);
}

// What a form is about, whatever version it has seen.
function aboutForm(form) {
  if (form.id) return form.id;
  const values = hiddenValues(form);
  for (const each of values) {
    delete each.expected_version;
    delete each.expected;
  }
  return JSON.stringify([form.dataset.call, form.dataset.also, form.getAttribute("action"), values]);
}

function sameForm(form, shown, fresh) {
  const like = (part) => [...part.querySelectorAll("form")].filter((each) => aboutForm(each) === aboutForm(form));
  return like(fresh)[like(shown).indexOf(form)];
}

// What was unfolded stays unfolded: `details` by their id, or else by their summary.
function keepOpen(shown, fresh) {
  const name = (details) => details.id || `${details.className} ${details.querySelector("summary")?.textContent}`;
  const seen = new Map();
  for (const each of shown.querySelectorAll("details")) seen.set(name(each), [...(seen.get(name(each)) ?? []), each.open]);
  for (const each of fresh.querySelectorAll("details")) {
    const open = seen.get(name(each))?.shift();
    if (open !== undefined) each.open = open;
  }
}

// The same for what a button shows, such as the field to edit a text in.
function keepUnfolded(shown, fresh, acting) {
  const ids = new Set([...shown.querySelectorAll("[data-shows]")].map((each) => each.dataset.shows));
  for (const id of ids) {
    const target = shown.querySelector(`#${CSS.escape(id)}`);
    const same = fresh.querySelector(`#${CSS.escape(id)}`);
    if (!target || target.hidden || target === acting || !same?.hidden) continue;
    same.hidden = false;
    for (const other of fresh.querySelectorAll(`[data-shown-without="${CSS.escape(id)}"]`)) other.hidden = true;
    for (const opener of fresh.querySelectorAll(`[data-shows="${CSS.escape(id)}"][aria-expanded]`)) opener.ariaExpanded = "true";
  }
}

// A selector that finds the same element in the new part.
function path(element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  const href = element.getAttribute("href");
  return href ? `${element.tagName.toLowerCase()}[href="${CSS.escape(href)}"]` : null;
}

const liveIds = (page) => [...page.querySelectorAll("#content [data-live]")].map((each) => each.id).sort().join(" ");

// Puts a page that was loaded again in the place of the shown one, or only the parts with these ids.
function settle(page, ids, acting) {
  const problem = page.getElementById("problem");
  // The server may be able to make the page in a moment.
  if (!page.getElementById("content") || Number(problem?.dataset.status) >= 500) throw new Error("The page could not be loaded.");
  // What the page was about was forgotten, or is there again.
  const other = Boolean(problem) !== Boolean(document.getElementById("problem"));
  // A part that is new or gone has no place that could be found: the whole content is replaced.
  const whole = ids === null || other || liveIds(page) !== liveIds(document);
  if (whole) document.title = page.title;
  replaceParts(page, whole ? ["navigation", "content", "who"] : ids, acting);
}

// Numbers of the loads: an answer that comes after that of a later load is not shown.
let begun = 0;
let shownLast = 0;

// Loads the parts with these ids again; null means the whole content, also what is not live.
export async function reload(ids, acting = null) {
  const number = ++begun;
  if (ids?.join() === "navigation") return reloadNavigation(number);
  const address = location.href;
  const page = await fetchPage(address);
  if (!page || number < shownLast) return;
  // Another search was made meanwhile.
  if (address !== location.href) return reload(ids, acting);
  shownLast = number;
  settle(page, ids, acting);
}

// The counts of the navigation change often, and need nothing of the page.
async function reloadNavigation(number) {
  const page = await fetchPage(`${pageAddress("navigation")}?place=${document.body.dataset.place}`);
  if (!page || number < shownLast) return;
  if (!page.getElementById("navigation")) throw new Error("The navigation could not be loaded.");
  replaceParts(page, ["navigation"]);
}

// After an action: only the form that was sent is emptied.
export async function reloadContent(acting) {
  return reload(null, acting);
}
