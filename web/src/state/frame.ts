// Work once per frame.

/** No frames are drawn in a hidden page: then the work is done after this time. */
const FRAME_MS = 100;

/** Calls back in the next frame, or soon if no frames are drawn. */
export function inFrame(action: () => void): void {
  let isDone = false;
  const once = () => {
    if (isDone) return;
    isDone = true;
    clearTimeout(timer);
    action();
  };
  const timer = setTimeout(once, FRAME_MS);
  requestAnimationFrame(once);
}
