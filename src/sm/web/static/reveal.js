// Brings an element into sight in the panel of its page. `scrollIntoView` would also move what is around the panel.

/** `isMiddle`: put the element into the middle of the panel. Otherwise the panel moves as little as possible. */
export function reveal(element, isMiddle = false) {
  const panel = element.closest(".panel");
  if (getComputedStyle(panel).overflowY === "visible") { // a narrow page scrolls as a whole
    element.scrollIntoView({ block: isMiddle ? "center" : "nearest" });
    return;
  }
  const [own, around] = [element.getBoundingClientRect(), panel.getBoundingClientRect()];
  if (isMiddle) panel.scrollTop += own.top + own.height / 2 - (around.top + around.height / 2);
  else panel.scrollTop += Math.min(0, own.top - around.top) + Math.max(0, own.bottom - around.bottom);
}
