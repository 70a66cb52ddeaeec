// A page that shows one turn, in an address without its hash. With a hash the browser goes there by itself.
export function startWanted() {
  // Somebody who comes back finds the place that was left.
  const [load] = performance.getEntriesByType("navigation");
  if (location.hash || load?.type !== "navigate") return;
  document.querySelector("#talk .wanted")?.scrollIntoView();
}
