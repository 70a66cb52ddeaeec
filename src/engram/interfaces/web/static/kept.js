// What a person has typed into a form whose subject is gone: a notice keeps it until the person dismisses it.
import { element } from "./dialogs.js";
import { changedFields } from "./fields.js";
import { isReadable, stored } from "./stored.js";

const GONE = "What you were editing is gone.";

// An edit of a text that was forgotten would show it again.
async function mayShow(form) {
  if (!isReadable(form)) return true;
  return stored(form).then(
    () => true,
    (problem) => problem.status !== 404,
  );
}

export async function keepTyped(form) {
  const typed = changedFields(form).filter((each) => each.matches("textarea, [type=text]") && each.value.trim());
  // The person has closed it, or it is being sent.
  if (!typed.length || form.closest("[hidden]") || form.ariaBusy === "true") return;
  const shown = (await mayShow(form)) ? typed : [];
  const what = element("p", { text: shown.length ? "The field that you were writing in is gone from this page. This was not sent:" : GONE });
  const close = element("button", { text: "Dismiss", type: "button", className: "small" });
  const texts = shown.map((each) => {
    const area = element("textarea", { rows: "3", readonly: "", "aria-label": "What you wrote" });
    area.value = each.value;
    return area;
  });
  const made = element("div", { className: "notice bad stack" }, what, ...texts, close);
  const check = async () => {
    if (await mayShow(form)) return;
    for (const each of texts) each.remove();
    what.textContent = GONE;
  };
  document.addEventListener("engram:forgotten", check);
  close.addEventListener("click", () => {
    document.removeEventListener("engram:forgotten", check);
    made.remove();
  });
  document.getElementById("notices").append(made);
}
