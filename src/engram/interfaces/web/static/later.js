// Loads parts of a page that take long (data-load names the page that has them) after the rest is shown.
import { fetchPage, replaceParts } from "./load.js";

export function startLater() {
  const load = async (part) => {
    const address = part.dataset.load;
    // The attribute goes first, so that no part is loaded twice.
    delete part.dataset.load;
    part.setAttribute("aria-busy", "true");
    const page = await fetchPage(address).catch(() => null);
    if (page) replaceParts(page, [part.id]);
    part.removeAttribute("aria-busy");
  };
  const loadAll = () => document.querySelectorAll("[data-load]").forEach(load);
  // The whole content may be loaded again, without these parts.
  document.addEventListener("engram:replaced", loadAll);
  loadAll();
}
