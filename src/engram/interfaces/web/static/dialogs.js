// Questions to the person, and short notices. Every text is set as text, never as HTML.

export function element(name, { text, className, ...attributes } = {}, ...children) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter(Boolean));
  return made;
}

export function notice(text, tone = "good") {
  const place = document.getElementById("notices");
  const made = element("p", { text, className: `notice ${tone}` });
  place.append(made);
  setTimeout(() => made.remove(), tone === "bad" ? 12000 : 4000);
}

// Shows a dialog with these contents; whether the person agreed. With `only` there is nothing to cancel. One that `quotes`
// stored text is closed when something is forgotten.
export function decide(title, contents, agree, { danger = false, wide = false, only = false, quotes = false } = {}) {
  return new Promise((resolve) => {
    const heading = element("h2", { text: title, id: "dialog-title" });
    const yes = element("button", { text: agree, type: "submit", value: "yes", className: danger ? "danger" : "" });
    const no = only ? null : element("button", { text: "Cancel", type: "submit", value: "no", className: "second", formnovalidate: "" });
    const form = element("form", { method: "dialog" }, heading, ...contents, element("div", { className: "row end" }, no, yes));
    const dialog = element("dialog", { "aria-labelledby": "dialog-title", className: wide ? "wide" : "" }, form);
    document.body.append(dialog);
    const forgotten = () => {
      dialog.close("no");
      notice("Something was forgotten meanwhile. Look at it again.", "bad");
    };
    if (quotes) document.addEventListener("engram:forgotten", forgotten);
    dialog.addEventListener("close", () => {
      document.removeEventListener("engram:forgotten", forgotten);
      resolve(dialog.returnValue === "yes");
      dialog.remove();
    });
    dialog.showModal();
    // What destroys something needs a deliberate step.
    (danger ? no : yes).focus();
  });
}

export const ask = (question, agree) => decide(question, [], agree);

// `1 memories to rebuild` as `1 memory to rebuild`.
function counted(count, many) {
  return `${count} ${count === 1 ? many.replace(/ies\b/, "y").replace(/s\b/, "") : many}`;
}

// The receipt counts turns and log entries alike. `turns` is how many turns the page says that there are, if it does.
function countedEntries(count, lines, turns) {
  const isLog = (line) => /^\d+ {2}log:/.test(line);
  // The preview begins with the turns, so it has all of them if it has a log entry, or if it has everything.
  const hasAll = lines.some(isLog) || lines.length === count;
  const known = hasAll ? lines.filter((each) => !isLog(each)).length : turns;
  if (known === undefined || known > count) return `${count} turns and log entries`;
  const logs = count - known;
  return [known && counted(known, "turns"), logs && counted(logs, "log entries")].filter(Boolean).join(" and ");
}

// What forgetting would delete: the counts, and the first words of the first few of each kind.
export function showPreview(receipt, { turns, hasChanged = false } = {}) {
  const list = element("dl");
  for (const [kind, count] of Object.entries(receipt.counts ?? {})) {
    if (!count) continue;
    const lines = receipt.preview?.[kind] ?? [];
    list.append(element("dt", { text: kind === "exchanges" ? countedEntries(count, lines, turns) : counted(count, kind) }));
    // A line without a text ends after the id and what it is: `12  gist:`.
    const empty = /^(memories|exchanges)/.test(kind) ? "(the text was forgotten)" : "(empty)";
    for (const line of lines) list.append(element("dd", { text: /^\S+ {2}[^:]*:$/.test(line) ? `${line} ${empty}` : line }));
    if (lines.length && count > lines.length) list.append(element("dd", { text: `… and ${count - lines.length} more`, className: "quiet" }));
  }
  const what = list.children.length ? list : element("p", { text: "Nothing would be deleted." });
  const changed = hasChanged ? element("p", { text: "This has changed since you looked. Now it is:", role: "alert" }) : null;
  const contents = [...(changed ? [changed] : []), what, element("p", { text: "This cannot be undone.", className: "problem" })];
  if (receipt.backups?.length) {
    contents.push(element("p", { text: `These backups still contain it: ${receipt.backups.join(", ")}`, className: "quiet" }));
  }
  return decide("Forget this for good?", contents, "Forget", { danger: true, quotes: true });
}

// A secret that is shown once.
export function showSecret(about, secret) {
  const text = element("input", { type: "text", readonly: "", value: secret, "aria-label": "The secret", className: "secret" });
  text.addEventListener("focus", () => text.select());
  const copy = element("button", { text: "Copy", type: "button", className: "second" });
  copy.addEventListener("click", () => navigator.clipboard?.writeText(secret).then(() => notice("Copied.")));
  return decide("Token created", [element("p", { text: about }), text, copy], "I have copied it", { only: true });
}
