// Results while one types: the form's own page is loaded, and its results take the place of those that are shown.
import { element } from "./dialogs.js";
import { fetchPage, replaceParts } from "./load.js";

// Milliseconds without a key before a search begins.
const PAUSE = 140;

const FAILED = "The search did not work. Try again.";

// What was found earlier may not stay below another question.
function showFailure(results, page) {
  const text = page?.querySelector("#problem p")?.textContent ?? FAILED;
  results.replaceChildren(element("p", { text, className: "problem", role: "alert" }));
}

export function startSearch() {
  let timer = null;
  let asked = 0;

  const search = async (form) => {
    const number = ++asked;
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
    const address = `${form.action}?${query}`;
    form.ariaBusy = "true";
    try {
      const page = await fetchPage(address).catch(() => undefined);
      // A later search may have been answered first. The page is null for somebody who is logged out.
      if (page === null || number !== asked) return;
      const parts = form.dataset.search.split(" ");
      if (!page?.getElementById(parts[0])) return showFailure(document.getElementById(parts[0]), page);
      history.replaceState(null, "", address);
      replaceParts(page, parts);
    } finally {
      if (number === asked) form.ariaBusy = null;
    }
  };
  // The form may be replaced with the rest of the page, so it is looked for each time.
  const found = (event) => event.target.closest("form[data-search]");
  document.addEventListener("input", (event) => {
    const form = found(event);
    if (!form) return;
    clearTimeout(timer);
    timer = setTimeout(() => search(form), PAUSE);
  });
  document.addEventListener("submit", (event) => {
    const form = found(event);
    if (!form) return;
    event.preventDefault();
    clearTimeout(timer);
    search(form);
  });
}
