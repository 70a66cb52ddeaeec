// What a person has typed or chosen and not sent.

const FIELDS = "textarea, select, input:not([type=hidden], [type=submit], [type=button])";

export function isChanged(field) {
  if (field.matches("[type=checkbox], [type=radio]")) return field.checked !== field.defaultChecked;
  if (!field.matches("select")) return field.value !== field.defaultValue;
  const first = [...field.options].findIndex((each) => each.defaultSelected);
  return field.selectedIndex !== Math.max(first, 0);
}

export const changedFields = (part) => [...part.querySelectorAll(FIELDS)].filter(isChanged);

const isTyping = (part) => part.contains(document.activeElement) && document.activeElement.matches(FIELDS);

// The forms in a part that may not be lost: something in them is changed, is being sent, or did not work.
export function unsent(part, acting) {
  const isUnsent = (form) =>
    changedFields(form).length || isTyping(form) || form.ariaBusy === "true" || form.querySelector(":scope > .problem");
  return [...part.querySelectorAll("form")].filter((form) => form !== acting && isUnsent(form));
}

// Whether a text would be lost with the page. A form that a person has closed does not count.
export const hasUnsent = (part) =>
  [...part.querySelectorAll("form[data-call]")].some((form) => !form.closest("[hidden]") && changedFields(form).length);

// Nothing can be typed into a form while it is sent. Returns how to end that.
export function freeze(form) {
  const fields = [...form.querySelectorAll("textarea, input")].filter((each) => !each.readOnly);
  for (const each of fields) each.readOnly = true;
  return () => fields.forEach((each) => (each.readOnly = false));
}
