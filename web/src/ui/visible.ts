// One observer for all charts: what nobody sees is not drawn.
const seen = new WeakSet<Element>();
const waiting = new Map<Element, () => void>();
let observer: IntersectionObserver | undefined;

function watch(element: Element): void {
  observer ??= new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) {
        seen.delete(entry.target);
        continue;
      }
      seen.add(entry.target);
      const draw = waiting.get(entry.target);
      waiting.delete(entry.target);
      draw?.();
    }
  }, { rootMargin: '100px' });
  observer.observe(element);
}

// visible draws now if an element can be seen, else when it can. The result cancels
// a drawing that has not happened.
export function visible(element: Element, draw: () => void): () => void {
  if (seen.has(element)) {
    draw();
    return () => undefined;
  }
  waiting.set(element, draw);
  watch(element);
  return () => {
    if (waiting.get(element) === draw) waiting.delete(element);
  };
}

// forget ends the watch over an element that leaves the page.
export function forget(element: Element): void {
  observer?.unobserve(element);
  waiting.delete(element);
  seen.delete(element);
}
