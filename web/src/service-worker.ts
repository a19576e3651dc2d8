// The service worker: the offline shell, and notifications with their answers.
/// <reference lib="webworker" />

const worker = globalThis as unknown as ServiceWorkerGlobalScope;
const CACHE = `shell-${__BUNDLE_VERSION__}`;
/** Replaced by the build with the addresses of the shell's files. */
const SHELL: string[] = ["__SHELL_FILES__"];
/** Replaced by the build with the addresses of the screens' files: stored in the background, so that every screen opens offline. */
const SCREENS: string[] = ["__SCREEN_FILES__"];
/** How long a page waits for the hub before the stored shell is shown. */
const NAVIGATION_MS = 3_000;

interface Notice {
  kind: "approval" | "input" | "ended" | "close" | "test";
  tag: string;
  title: string;
  body: string;
  url: string;
  run_id?: string;
  request_id?: string;
  actions?: boolean;
}

worker.addEventListener("install", (event) => {
  const stored = caches
    .open(CACHE)
    .then((cache) => cache.addAll(SHELL.map((path) => new Request(path, { cache: "reload" }))));
  event.waitUntil(stored.then(() => worker.skipWaiting()));
});

worker.addEventListener("activate", (event) => {
  event.waitUntil(removeOldShells().then(() => worker.clients.claim()));
});

async function removeOldShells(): Promise<void> {
  const names = await caches.keys();
  await Promise.all(names.filter((name) => name !== CACHE).map((name) => caches.delete(name)));
}

worker.addEventListener("message", (event) => {
  const data = event.data as { store?: unknown } | null;
  if (data?.store === "screens") event.waitUntil(storeScreens());
});

/** Stores the screens one after the other. After a failure, the next page continues. */
async function storeScreens(): Promise<void> {
  const cache = await caches.open(CACHE);
  for (const path of SCREENS) {
    if (await cache.match(path, { ignoreVary: true })) continue;
    const isStored = await cache.add(path).then(
      () => true,
      () => false,
    );
    if (!isStored) return;
  }
}

worker.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== worker.location.origin) return;
  const isFile = url.pathname === "/ca.crt" || url.pathname.startsWith("/audit/export");
  if (request.mode === "navigate" && !isFile) event.respondWith(page(request));
  else if (url.pathname.startsWith("/assets/")) event.respondWith(asset(request));
});

/** The hub's page if it answers in time, the stored one otherwise. */
async function page(request: Request): Promise<Response> {
  const stored = () => caches.match("/", { cacheName: CACHE });
  const late = new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), NAVIGATION_MS));
  const fetched = fetch(request).catch(() => undefined);
  const first = await Promise.race([fetched, late]);
  if (first && first.status < 500) return first;
  return (await stored()) ?? (await fetched) ?? Response.error();
}

/** Names of assets contain their hash: a stored one is always right, also for a style, which is requested with another `Accept`. */
async function asset(request: Request): Promise<Response> {
  const stored = await caches.match(request, { cacheName: CACHE, ignoreVary: true });
  if (stored) return stored;
  const fetched = await fetch(request);
  if (fetched.ok) await (await caches.open(CACHE)).put(request, fetched.clone());
  return fetched;
}

worker.addEventListener("push", (event) => {
  event.waitUntil(show(event.data));
});

async function show(data: PushMessageData | null): Promise<void> {
  let notice: Notice;
  try {
    notice = data?.json() as Notice;
  } catch {
    return;
  }
  if (notice.kind === "close") return closeAll(notice.tag);
  const actions = [
    { action: "approve", title: __NOTICE_TEXTS__.approve },
    { action: "deny", title: __NOTICE_TEXTS__.deny },
  ];
  // `actions` is missing in TypeScript's types, and on platforms without it is ignored.
  const options: NotificationOptions & { actions?: typeof actions; renotify?: boolean } = {
    body: notice.body,
    tag: notice.tag,
    renotify: true,
    icon: "/icons/icon-192.png",
    badge: "/icons/badge-96.png",
    data: notice,
    ...(notice.actions ? { actions } : {}),
  };
  await worker.registration.showNotification(notice.title, options);
}

async function closeAll(tag: string): Promise<void> {
  for (const shown of await worker.registration.getNotifications({ tag })) shown.close();
}

worker.addEventListener("notificationclick", (event) => {
  const notice = event.notification.data as Notice;
  event.notification.close();
  const isAnswer = event.action === "approve" || event.action === "deny";
  event.waitUntil(isAnswer ? answer(notice, event.action) : open(notice.url));
});

async function answer(notice: Notice, decision: string): Promise<void> {
  const path = `/approvals/${encodeURIComponent(notice.run_id ?? "")}/${encodeURIComponent(notice.request_id ?? "")}`;
  const body = JSON.stringify({ decision, actor: "web" });
  const headers = { "content-type": "application/json" };
  try {
    const response = await fetch(path, { method: "POST", headers, body });
    if (!response.ok) await failed(notice, await response.text());
  } catch {
    await failed(notice, __NOTICE_TEXTS__.unreachable);
  }
}

async function failed(notice: Notice, why: string): Promise<void> {
  const options = { body: why, tag: notice.tag, data: notice };
  await worker.registration.showNotification(__NOTICE_TEXTS__.notAnswered, options);
}

async function open(url: string): Promise<void> {
  const pages = await worker.clients.matchAll({ type: "window" });
  const [shown] = pages;
  if (!shown) return void (await worker.clients.openWindow(url));
  shown.postMessage({ open: url });
  // Refused if the platform does not count the tap as an activation.
  await shown.focus().catch(() => undefined);
}
