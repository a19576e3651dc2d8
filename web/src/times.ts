// Times for people: how long ago, how long left, how long it took. Pure.
import { texts } from "./texts.ts";

const UNITS: [number, string][] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const [size, unit] = UNITS.find(([size]) => whole >= size) ?? [1, "s"];
  return `${Math.floor(whole / size)} ${unit}`;
}

export function ago(time: string | null, now: number): string {
  const at = Date.parse(time ?? "");
  if (Number.isNaN(at)) return "";
  const seconds = (now - at) / 1000;
  return seconds < 5 ? texts.times.now : texts.times.ago(duration(seconds));
}

/** The time until `time`; null if there is none, empty if it is over. */
export function left(time: string | null | undefined, now: number): string | null {
  const at = Date.parse(time ?? "");
  if (Number.isNaN(at)) return null;
  return at <= now ? "" : texts.times.left(duration((at - now) / 1000));
}

/** How long something took. */
export function took(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : duration(ms / 1_000);
}

/** The time of day, with the date if it is another day than now. Short, so that it fits beside what happened. */
export function clock(time: string, now: number): string {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return time;
  const isToday = at.toDateString() === new Date(now).toDateString();
  const hours = at.toLocaleTimeString("en-GB", isToday ? {} : { hour: "2-digit", minute: "2-digit" });
  return isToday ? hours : `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${hours}`;
}

/** The whole date and time. */
export function fullTime(time: string): string {
  const at = new Date(time);
  return Number.isNaN(at.getTime()) ? time : at.toLocaleString("en-GB");
}
