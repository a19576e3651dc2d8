// The push subscription of this device.
import { api } from "../connection/api.ts";
import { texts } from "../texts.ts";
import { workerRegistration } from "../worker-registration.ts";

export type PushState = "on" | "off" | "denied" | "unsupported" | "insecure";

const ID = "push-subscription";

export async function pushState(): Promise<PushState> {
  const registration = await workerRegistration();
  if (!registration) return "insecure";
  if (!("PushManager" in window) || !("Notification" in window)) return "unsupported";
  if (Notification.permission === "denied") return "denied";
  return (await registration.pushManager.getSubscription()) ? "on" : "off";
}

export async function subscribe(wanted: { waits: boolean; ends: boolean }): Promise<void> {
  if ((await Notification.requestPermission()) !== "granted") throw new Error(texts.settings.denied);
  const registration = await navigator.serviceWorker.ready;
  const { public_key } = await api.get<{ public_key: string }>("/push/key");
  const subscription = await registration.pushManager.subscribe({
    userVisibleOnly: true,
    applicationServerKey: public_key,
  });
  const { id } = await api.post<{ id: string }>("/push/subscriptions", {
    ...subscription.toJSON(),
    ...wanted,
  });
  localStorage.setItem(ID, id);
}

/** Ends the notices to this device; without any, does nothing. */
export async function unsubscribe(): Promise<void> {
  const registration = await workerRegistration();
  await (await registration?.pushManager?.getSubscription())?.unsubscribe();
  const id = localStorage.getItem(ID);
  localStorage.removeItem(ID);
  if (id !== null) await api.delete(`/push/subscriptions/${encodeURIComponent(id)}`);
}
