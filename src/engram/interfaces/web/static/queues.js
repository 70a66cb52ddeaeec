// Lists of things to decide (data-queue). After a decision the next entry gets the focus, so that the keyboard is enough.
// Each entry has an id and can be focused.

export function startQueues() {
  let decided = null;
  document.addEventListener("engram:done", (event) => {
    const item = event.detail.form.closest("[data-queue] > [data-item]");
    const next = item?.nextElementSibling ?? item?.previousElementSibling;
    decided = item ? [item.id, next?.id] : null;
  });
  document.addEventListener("engram:replaced", () => {
    if (!decided) return;
    // An entry that is still there is not decided yet: more is to be done about it.
    const next = decided.map((id) => id && document.getElementById(id)).find(Boolean);
    decided = null;
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  });
}
