// Two people, or a person and an agent, have changed the same text. The person sees both and decides.
import { decide, element, notice } from "./dialogs.js";
import { pageAddress } from "./addresses.js";
import { fetchPage, reloadContent } from "./load.js";
import { isReadable, stored } from "./stored.js";

// The same that the server shows as � in other places. A text that is edited has to keep them.
const HARMFUL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]|[\u{e0000}-\u{e01ef}]/gu;
const textOf = (form) => form.elements.content ?? form.elements.text;

// Whether this form can show both sides.
export const canResolve = (form) => form.dataset.conflict !== undefined && isReadable(form) && Boolean(textOf(form));

function side(title, text, editable) {
  const area = element("textarea", { rows: "14", "aria-label": title });
  area.value = editable ? text : text.replace(HARMFUL, "�");
  area.readOnly = !editable;
  return [element("div", { className: "side" }, element("h3", { text: title }), area), area];
}

// Who wrote a version: a session by its title, another person by name, or the same person elsewhere.
async function writerOf({ author, actor, updated_by }) {
  const query = new URLSearchParams({ author: author ?? "", actor: actor ?? updated_by ?? "" });
  const page = await fetchPage(`${pageAddress("writer")}?${query}`).catch(() => null);
  return page?.querySelector("body > p")?.textContent ?? "somebody else";
}

// `values` are the arguments that the form has sent.
export async function resolveConflict(form, values, call) {
  const field = textOf(form);
  const theirs = await stored(form);
  const by = await writerOf(theirs.history?.[0] ?? theirs);
  const [left] = side(`Now stored: version ${theirs.version}, by ${by}`, theirs.content, false);
  const [right, area] = side("Your text: combine both here", field.value, true);
  const contents = [
    element("p", { text: "The text changed while you were editing. Your text is not stored yet." }),
    element("div", { className: "sides" }, left, right),
  ];
  const agreed = await decide("Two edits of the same text", contents, "Store my text", { wide: true, quotes: true });
  field.value = area.value;
  if (!agreed) return;
  const merged = { reason: "merged two edits", ...values, [field.name]: area.value, expected_version: theirs.version };
  try {
    await call(form.dataset.call, merged);
  } catch (again) {
    if (again.code !== "version_conflict") throw again;
    await resolveConflict(form, values, call);
    return;
  }
  notice("Stored.");
  form.reset();
  await reloadContent(form);
}
