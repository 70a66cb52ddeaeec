// Forms that call the HTTP API. See parts.form for their attributes.
import { ask, element, notice, showPreview, showSecret } from "./dialogs.js";
import { pageAddress, pathPart } from "./addresses.js";
import { canResolve, resolveConflict } from "./conflict.js";
import { changedFields, freeze, hasUnsent, isChanged } from "./fields.js";
import { keepTyped } from "./kept.js";
import { forgetKeys, keysOf } from "./once.js";
import { LOGGED_OUT, loggedIn, loggedOut, loginLink, reload, reloadContent } from "./load.js";

class Refused extends Error {
  constructor(status, error) {
    super(status === 401 ? LOGGED_OUT : (error?.message ?? `The server answered with ${status}.`));
    this.status = status;
    this.code = error?.code ?? "";
    this.details = error?.details ?? {};
  }
}

// One call: an operation (`memory.update`), or a call of the library (`library:memories.approve`). Its result.
async function call(name, values, key) {
  const library = name.startsWith("library:") ? name.slice(8) : null;
  const path = library ? `/api/v1/library/${library}` : `/api/v1/${name.replaceAll(".", "/")}`;
  let answer;
  try {
    answer = await fetch(path, {
      method: "POST",
      credentials: "same-origin",
      headers: {
        "content-type": "application/json",
        "x-engram-workspace": document.body.dataset.workspace,
        ...(key && { "idempotency-key": key }),
      },
      body: JSON.stringify(library ? { options: values } : values),
    });
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, body.error);
  return body.result;
}

// A form that edits what is stored sends only the fields that the person has changed. A field may show a text in another
// way than it is stored, with other line ends.
const isEdit = (form) => form.dataset.conflict !== undefined;
const changesNothing = (form) => isEdit(form) && changedFields(form).every((each) => each.name === "reason");

// The texts of a list that a person has typed, separated by commas: `deploy, "a, b"`. A text with a comma is quoted.
const textsIn = (list) => [...list.matchAll(/"([^"]*)"|[^,]+/g)].map(([all, quoted]) => (quoted ?? all).trim()).filter(Boolean);

// The arguments of a call: the fields of the form, each as its data-type says, and its hidden values.
export function valuesOf(form, submitter) {
  const values = {};
  for (const element of form.elements) {
    if (element.dataset.values) Object.assign(values, JSON.parse(element.dataset.values));
    if (!element.name || element.disabled || element.type === "submit") continue;
    if (isEdit(form) && !isChanged(element)) continue;
    const type = element.dataset.type;
    if (type === "flag") values[element.name] = element.checked;
    else if (element.type === "radio" && !element.checked) continue;
    else if (element.value === "" && !element.required && element.dataset.keep === undefined) continue;
    else if (type === "whole" || type === "number") values[element.name] = Number(element.value);
    else if (type === "texts") values[element.name] = textsIn(element.value);
    else values[element.name] = element.value;
  }
  if (submitter?.dataset.values) Object.assign(values, JSON.parse(submitter.dataset.values));
  return values;
}

// What stands in the way of an undo, each with a link to it.
function obstacles(problem) {
  const list = element("ul");
  for (const { kind, ref, name = `${kind} ${ref}`, why } of problem.details?.obstacles ?? []) {
    const pages = { memory: ["memories", ref], session: ["sessions", ref], block: ["blocks", name.replace(/^block /, "")] };
    const page = Object.hasOwn(pages, kind) ? pages[kind] : null;
    const what = page ? element("a", { text: name, href: pageAddress(...page) }) : name;
    list.append(element("li", {}, what, `: ${why}`));
  }
  return list.children.length ? list : null;
}

function showProblem(form, problem) {
  let place = form.querySelector(":scope > .problem");
  if (!place) {
    place = element("div", { className: "problem", role: "alert" });
    form.append(place);
  }
  const list = obstacles(problem);
  // The message names them too, in one line.
  place.textContent = list ? "This cannot be undone, because of later changes. Nothing was undone." : problem.message;
  if (list) place.append(list);
  if (problem.status === 401) place.append(" ", loginLink());
}

const told = ({ counts, preview }) => JSON.stringify([counts, preview]);

// Shows what forgetting would delete. If that has changed while the person was reading, they are asked again.
async function agreesToForget(name, values, turns) {
  const look = () => call(name, { ...values, dry_run: true });
  let shown = await look();
  let agreed = await showPreview(shown, { turns });
  while (agreed) {
    const now = await look();
    if (told(now) === told(shown)) return true;
    shown = now;
    agreed = await showPreview(shown, { hasChanged: true });
  }
  return false;
}

// `perform` makes a call that is done once, however often the form is sent.
async function send(form, submitter, name, values, perform) {
  const question = submitter?.dataset.confirm ?? form.dataset.confirm;
  if (form.dataset.preview !== undefined) {
    const { turns } = form.dataset;
    if (!(await agreesToForget(name, values, turns && Number(turns)))) return;
  } else if (question && !(await ask(question, submitter?.textContent.trim() || "Yes"))) return;
  const result = await perform(name, values);
  if (form.dataset.also) await perform(...JSON.parse(form.dataset.also));
  document.dispatchEvent(new CustomEvent("engram:done", { detail: { name, values, result, form } }));
  await after(form, result);
}

async function after(form, result) {
  if (form.dataset.secret) await showSecret(form.dataset.secret, result.fields.secret);
  const done = form.dataset.done;
  if (form.dataset.then) {
    // Nothing here is unsent any more.
    form.reset();
    if (done) sessionStorage.setItem("engram-notice", done);
    location.assign(form.dataset.then.replace("{id}", pathPart(result?.id ?? "")).replace("{name}", pathPart(result?.name ?? "")));
    return;
  }
  if (done) notice(done);
  form.reset();
  try {
    await reloadContent(form);
  } catch {
    notice("It is done, but this page could not be loaded again.", "bad");
  }
}

async function showPresent(form, problem) {
  const wasShown = form.isConnected && !form.classList.contains("inline");
  await reload(null).catch(() => {});
  if (wasShown && !form.isConnected) notice(problem.message, "bad");
}

async function submit(event) {
  const form = event.target.closest("form[data-call]");
  if (!form) return;
  event.preventDefault();
  if (form.ariaBusy === "true") return;
  form.querySelector(":scope > .problem")?.remove();
  if (changesNothing(form)) {
    notice("Nothing has changed.");
    return;
  }
  const submitter = event.submitter;
  const name = submitter?.dataset.call ?? form.dataset.call;
  const values = valuesOf(form, submitter);
  const keyOf = keysOf(form, name, values);
  const perform = (...called) => call(...called, keyOf(...called));
  const thaw = freeze(form);
  form.ariaBusy = "true";
  try {
    await send(form, submitter, name, values, perform).catch((problem) => {
      if (problem.code !== "version_conflict" || !canResolve(form)) throw problem;
      return resolveConflict(form, values, perform);
    });
    forgetKeys(form);
    loggedIn();
  } catch (problem) {
    if (problem.status === 401) loggedOut();
    if (form.classList.contains("inline") || !form.isConnected) notice(problem.message, "bad");
    else showProblem(form, problem);
    // The page shows something that is not so any more.
    if (problem.status === 409) await showPresent(form, problem);
  } finally {
    form.ariaBusy = null;
    thaw();
    // A form may have gone while the server worked, or while the person decided. One that was stored has nothing to keep.
    if (!form.isConnected) keepTyped(form);
  }
}

// A choice that leads to another page. With the keyboard one goes through the list first, and Enter goes there.
function startChoices() {
  const go = (select) => location.assign(select.value);
  const stay = (select) => {
    for (const option of select?.options ?? []) option.selected = option.defaultSelected;
  };
  const choice = (event) => (event.target.matches?.("select[data-go]") ? event.target : null);
  document.addEventListener("keydown", (event) => {
    const select = choice(event);
    if (!select) return;
    if (event.key === "Enter") go(select);
    else if (event.key === "Escape") stay(select);
    else select.dataset.byKey = "";
  });
  // A person who leaves it without Enter stays here.
  document.addEventListener("focusout", (event) => stay(choice(event)));
  document.addEventListener("pointerdown", (event) => delete choice(event)?.dataset.byKey);
  document.addEventListener("change", (event) => {
    const select = choice(event);
    if (select && select.dataset.byKey === undefined) go(select);
  });
}

export function startForms() {
  document.addEventListener("submit", submit);
  // The browser asks before a text that is not stored goes with its page.
  addEventListener("beforeunload", (event) => {
    if (hasUnsent(document)) event.preventDefault();
  });
  startChoices();
  // Ctrl+Enter sends the text that the person is writing.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches("textarea")) {
      event.target.form?.requestSubmit();
    }
  });
  // A button that unfolds something, such as the field to edit a text in place.
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-shows]");
    if (!opener) return;
    const target = document.getElementById(opener.dataset.shows);
    const hidden = target.toggleAttribute("hidden");
    opener.setAttribute("aria-expanded", String(!hidden));
    for (const other of document.querySelectorAll(`[data-shown-without="${target.id}"]`)) other.hidden = !hidden;
    if (!hidden) target.querySelector("textarea, input:not([type=hidden]), button")?.focus();
  });
  const left = sessionStorage.getItem("engram-notice");
  if (left) {
    sessionStorage.removeItem("engram-notice");
    notice(left);
  }
}
