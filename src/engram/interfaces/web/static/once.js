// Idempotency keys. A form is sent again if an answer was lost or a later call failed: what was done is not done twice.

const used = new WeakMap();

// crypto.randomUUID is missing on pages that come over plain HTTP from another machine.
const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((each) => each.toString(16).padStart(2, "0")).join("");

// The key of each call of this form, by the call and its arguments. Keys stay until all calls have succeeded
// (`forgetKeys`), or until the person asks for something else.
export function keysOf(form, name, values) {
  const asked = JSON.stringify([name, values]);
  if (used.get(form)?.asked !== asked) used.set(form, { asked, keys: new Map() });
  const { keys } = used.get(form);
  return (...called) => {
    const about = JSON.stringify(called);
    if (!keys.has(about)) keys.set(about, newKey());
    return keys.get(about);
  };
}

export const forgetKeys = (form) => used.delete(form);
