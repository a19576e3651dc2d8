// Whether an element is near the window, for parts of long lists that are rendered only there.

/** A distance that is scrolled in a few frames. */
const AHEAD_PX = 800;

const watched = new WeakMap<Element, (isNear: boolean) => void>();
const observer = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) watched.get(target)?.(isIntersecting);
  },
  { rootMargin: `${AHEAD_PX}px` },
);

/** Calls back with whether the element is near the window, now and whenever that changes. Returns what ends it. */
export function watchNear(element: Element, changed: (isNear: boolean) => void): () => void {
  watched.set(element, changed);
  observer.observe(element);
  return () => {
    observer.unobserve(element);
    watched.delete(element);
  };
}
