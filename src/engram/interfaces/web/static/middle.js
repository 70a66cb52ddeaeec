// Scrolls a drawing that is wider than its place (data-middle) so that the thing it is about is in the middle.
export function startMiddle() {
  const seen = new WeakSet();
  const move = () => {
    for (const place of document.querySelectorAll("[data-middle]")) {
      // A drawing that a person has scrolled stays where it is.
      if (seen.has(place)) continue;
      seen.add(place);
      const outer = place.getBoundingClientRect();
      const inner = place.querySelector(place.dataset.middle)?.getBoundingClientRect();
      if (!inner) continue;
      place.scrollLeft += inner.x + inner.width / 2 - outer.x - outer.width / 2;
      place.scrollTop += inner.y + inner.height / 2 - outer.y - outer.height / 2;
    }
  };
  document.addEventListener("engram:replaced", move);
  move();
}
