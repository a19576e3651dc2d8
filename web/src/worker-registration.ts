// Registers the service worker, and opens the places that its notifications point to.
import { localAddress } from "./routing/address.ts";
import { router } from "./routing/router.svelte.ts";

/** The screens are stored when the first one has surely been loaded. */
const STORE_SCREENS_AFTER_MS = 2_000;

let registering: Promise<ServiceWorkerRegistration | null> | null = null;

/**
 * The registration of the service worker; null where the browser refuses it: without TLS (except on this machine) and with an
 * untrusted certificate. The app then works without offline shell and notifications.
 */
export function workerRegistration(): Promise<ServiceWorkerRegistration | null> {
  registering ??= register();
  return registering;
}

async function register(): Promise<ServiceWorkerRegistration | null> {
  if (!("serviceWorker" in navigator)) return null;
  navigator.serviceWorker.addEventListener("message", (event: MessageEvent<unknown>) => {
    const data = event.data as { open?: unknown } | null;
    if (typeof data?.open === "string") router.go(localAddress(data.open));
  });
  try {
    const registration = await navigator.serviceWorker.register("/sw.js", { updateViaCache: "none" });
    void navigator.serviceWorker.ready.then(({ active }) =>
      setTimeout(() => active?.postMessage({ store: "screens" }), STORE_SCREENS_AFTER_MS),
    );
    return registration;
  } catch {
    return null;
  }
}
