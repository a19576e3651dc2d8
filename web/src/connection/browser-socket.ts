// The browser's WebSocket as the connection module needs it.
import type { Environment, Socket } from "./hub-connection.ts";

export function browserEnvironment(token?: string): Environment {
  return {
    open: () => openSocket(token !== undefined),
    setTimer: (action, ms) => window.setTimeout(action, ms),
    clearTimer: (timer) => window.clearTimeout(timer as number),
    random: Math.random,
    newId,
    token,
  };
}

function openSocket(authenticatesByMessage: boolean): Socket {
  const address = new URL("/ws/app", location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  if (authenticatesByMessage) address.searchParams.set("auth", "message");
  return new WebSocket(address) as Socket;
}

/** A random UUID. `crypto.randomUUID` exists in secure contexts only, and a hub may be used over plain HTTP. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    "4" + hex.slice(13, 16),
    "a" + hex.slice(17, 20),
    hex.slice(20),
  ].join("-");
}
