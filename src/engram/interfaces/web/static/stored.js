// The stored text that a form edits.

// By the call that stores a text: which operation reads it, and which argument names it.
const READERS = {
  "block.update": { path: "block/view", key: "name" },
  "memory.update": { path: "memory/show", key: "id" },
  "library:memories.update": { path: "memory/show", key: "id" },
  "library:proposals.apply": { path: "dream/review", key: "id", method: "POST" },
  "library:proposals.edit": { path: "dream/review", key: "id", method: "POST" },
  "dream.review": { path: "dream/review", key: "id", method: "POST" },
};

export const isReadable = (form) => form.dataset.call in READERS;

// The values that a form sends as they are.
export const hiddenValues = (form) => [...form.querySelectorAll("input[data-values]")].map((each) => JSON.parse(each.dataset.values));

// Throws an error with a `status` if there is none.
export async function stored(form) {
  const { path, key, method = "GET" } = READERS[form.dataset.call];
  const named = { [key]: Object.assign({}, ...hiddenValues(form))[key] };
  const answer = await fetch(`/api/v1/${path}${method === "GET" ? `?${new URLSearchParams(named)}` : ""}`, {
    method,
    credentials: "same-origin",
    headers: { "content-type": "application/json", "x-engram-workspace": document.body.dataset.workspace },
    ...(method === "POST" && { body: JSON.stringify(named) }),
  });
  const body = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(body.error.message), { status: answer.status });
  return body.result;
}
