// A page of an older bundle loads itself again once when the hub has a newer one; drafts keep typed text, and answers that are
// on their way arrive before.
const RELOADED_FOR = "reloaded-for";

/** How long answers that are on their way may take. */
const SETTLED_MS = 5_000;

export async function checkForUpdate(offered: unknown, settled: Promise<void>): Promise<void> {
  if (typeof offered !== "string" || offered === "" || offered === __BUNDLE_VERSION__) return;
  if (sessionStorage.getItem(RELOADED_FOR) === offered) return;
  sessionStorage.setItem(RELOADED_FOR, offered);
  const worker = await navigator.serviceWorker?.getRegistration().catch(() => undefined);
  await worker?.update().catch(() => undefined);
  await Promise.race([settled, new Promise((resolve) => setTimeout(resolve, SETTLED_MS))]);
  location.reload();
}
