// Requests to the hub's HTTP API. Errors carry the hub's line of text.
import { texts } from "../texts.ts";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly retryAfter: string | null = null,
  ) {
    super(message);
  }
}

let bearer: string | null = null;
let signedOut: () => void = () => {};

/** Uses the token of a share link instead of the cookie. */
export function useBearer(token: string | null): void {
  bearer = token;
}

/** Sets what is called when a request other than a sign-in, made from now on, gets 401. */
export function onSignedOut(handler: () => void): void {
  signedOut = handler;
}

export async function send(method: string, path: string, body?: unknown): Promise<Response> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (bearer !== null) headers.authorization = `Bearer ${bearer}`;
  try {
    return await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
    });
  } catch {
    throw new ApiError(0, texts.errors.unreachable);
  }
}

async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  // A late response says nothing about a newer sign-in.
  const ended = signedOut;
  const response = await send(method, path, body);
  const text = await response.text();
  if (!response.ok) {
    if (response.status === 401 && !path.startsWith("/auth/")) ended();
    throw new ApiError(
      response.status,
      text.trim() || response.statusText,
      response.headers.get("retry-after"),
    );
  }
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

export const api = {
  get: <T>(path: string) => call<T>("GET", path),
  post: <T>(path: string, body: unknown = {}) => call<T>("POST", path, body),
  delete: (path: string) => call<void>("DELETE", path),
};

/** The text of any error for a person. */
export function errorText(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text === "host offline" ? texts.errors.hostOffline : text;
}
