// The keyboard: g and a letter goes to a page, / to the search, j and k move through a list, ? tells all of it.
import { element } from "./dialogs.js";

const isTyping = (target) => target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable], dialog");
const items = () => [...document.querySelectorAll("[data-item]")].filter((each) => each.offsetParent);

function move(step) {
  const all = items();
  if (!all.length) return;
  const current = all.findIndex((each) => each.contains(document.activeElement));
  const next = all[Math.min(Math.max(current + step, 0), all.length - 1)];
  next.tabIndex = -1;
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

function help() {
  const rows = [
    ...[...document.querySelectorAll("nav [data-key]")].map((each) => [`g ${each.dataset.key}`, each.querySelector("span").textContent]),
    ["/", "Search"],
    ["j  k", "Next and previous entry"],
    ["Enter", "Open the entry"],
    ...[...new Map([...document.querySelectorAll("[data-item] [data-key]")].map((each) => [each.dataset.key, each.textContent.trim()]))],
    ["Ctrl Enter", "Send what you are writing"],
    ["Esc", "Close a dialog"],
  ];
  const list = element("dl", { className: "keys" });
  for (const [key, what] of rows) list.append(element("dt", {}, element("kbd", { text: key })), element("dd", { text: what }));
  const close = element("button", { text: "Close", type: "submit" });
  const form = element("form", { method: "dialog" }, element("h2", { text: "Keyboard shortcuts", id: "keys-title" }), list, element("div", { className: "row end" }, close));
  const dialog = element("dialog", { "aria-labelledby": "keys-title" }, form);
  dialog.addEventListener("close", () => dialog.remove());
  // At once, so that the next key already belongs to the page. A browser that is busy closes it later.
  dialog.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    dialog.close();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
}

export function startKeys() {
  let going = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const key = event.key;
    if (going) {
      going = false;
      document.querySelector(`nav [data-key="${CSS.escape(key)}"]`)?.click();
      return;
    }
    if (key === "g") going = true;
    else if (key === "?") help();
    else if (key === "/") {
      const box = document.querySelector("input[type=search]");
      if (box) box.focus();
      else document.querySelector('nav [data-key="s"]').click();
      event.preventDefault();
    } else if (key === "j" || key === "k") move(key === "j" ? 1 : -1);
    else {
      const item = event.target.closest("[data-item]");
      // A key that is held down decides one thing, not everything that gets the focus after it.
      if (!item || event.repeat) return;
      const target = key === "Enter" && event.target === item ? item.querySelector("a[href]") : key.length === 1 ? item.querySelector(`[data-key="${CSS.escape(key)}"]`) : null;
      if (target) {
        event.preventDefault();
        target.click();
      }
    }
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-help]")) help();
  });
}
