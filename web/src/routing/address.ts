// The addresses of the app and the screens they show. Pure.

export const TABS = ["terminal", "activity", "files", "git"] as const;
export type Tab = (typeof TABS)[number];

export type Route =
  | { screen: "home" }
  | { screen: "login" }
  | { screen: "hosts" }
  | { screen: "host"; id: string }
  | { screen: "run"; id: string; tab: Tab }
  | { screen: "approvals"; run: string | null; request: string | null }
  | { screen: "new"; repeat: string | null; host: string | null }
  | { screen: "audit" }
  | { screen: "settings" }
  | { screen: "share"; token: string }
  | { screen: "unknown" };

export function parseAddress(path: string, query = ""): Route {
  const [first = "", second, third, ...rest] = path.split("/").filter(Boolean).map(decode);
  const params = new URLSearchParams(query);
  if (rest.length > 0) return { screen: "unknown" };
  if (first === "runs" && second) {
    const tab = TABS.find((name) => name === (third ?? "terminal"));
    return tab ? { screen: "run", id: second, tab } : { screen: "unknown" };
  }
  if (third) return { screen: "unknown" };
  if (first === "hosts" && second) return { screen: "host", id: second };
  if (first === "share" && second) return { screen: "share", token: second };
  if (second) return { screen: "unknown" };
  switch (first) {
    case "":
      return { screen: "home" };
    case "approvals":
      return { screen: "approvals", run: params.get("run"), request: params.get("request") };
    case "new":
      return { screen: "new", repeat: params.get("repeat"), host: params.get("host") };
    case "login":
    case "hosts":
    case "audit":
    case "settings":
      return { screen: first };
    default:
      return { screen: "unknown" };
  }
}

export function runAddress(id: string, tab: Tab = "terminal"): string {
  return `/runs/${encodeURIComponent(id)}/${tab}`;
}

export function hostAddress(id: string): string {
  return `/hosts/${encodeURIComponent(id)}`;
}

/** A place inside the app; anything else, such as another site's address, becomes the home screen. */
export function localAddress(value: string | null): string {
  return value !== null && /^\/(?![/\\])/.test(value) ? value : "/";
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
