// How outcomes, times and durations are written.
const SIGNS = {
  Processed: { tone: "good", icon: "check" },
  Superseded: { tone: "quiet", icon: "skip" },
  Duplicate: { tone: "quiet", icon: "copies" },
  Retrying: { tone: "warn", icon: "again" },
  Parked: { tone: "bad", icon: "pause" },
  NotParked: { tone: "bad", icon: "cross" },
  Running: { tone: "live", icon: "dots" },
  Waiting: { tone: "live", icon: "clock" },
  Working: { tone: "live", icon: "dots" },
  TimedOut: { tone: "bad", icon: "clock" },
  Aborted: { tone: "bad", icon: "stop" },
  Succeeded: { tone: "good", icon: "check" },
  Unknown: { tone: "warn", icon: "question" },
};
/** The sign of an outcome, and its name in words: "Invalid event". */
export const outcome = (name) =>
  Object.hasOwn(SIGNS, name)
    ? { ...SIGNS[name], text: name.replace(/(?<=.)[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`) }
    : { tone: "bad", icon: "cross", text: name };

export const VERDICTS = {
  right: { tone: "good", icon: "check", text: "The output is right" },
  pending: { tone: "live", icon: "clock", text: "The output will be right" },
  parked: { tone: "bad", icon: "pause", text: "Its event is parked: a person must decide" },
  wrong: { tone: "bad", icon: "cross", text: "The output is wrong" },
  none: { tone: "warn", icon: "question", text: "There is nothing to compare" },
  unknown: { tone: "warn", icon: "question", text: "Not known" },
};

// Control characters, and those that change the direction of all text that follows.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** Text with its invisible characters as escapes, so that it cannot look like another one. */
export const plain = (text) =>
  String(text).replace(UNSEEN, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** A time of the day in UTC. */
export const clock = (time, precise = false) =>
  time ? new Date(time).toISOString().slice(11, precise ? 23 : 19) : "?";
export const day = (time) => (time ? new Date(time).toISOString().slice(0, 10) : "");

/** A duration in seconds. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const rest = seconds < 600 ? ` ${Math.round(seconds % 60)} s` : "";
  if (seconds < 5400) return `${Math.floor(seconds / 60)} min${rest}`;
  return seconds < 172800
    ? `${Math.round(seconds / 3600)} h`
    : `${Math.round(seconds / 86400)} days`;
}
export const between = (from, to) => (from && to ? (new Date(to) - new Date(from)) / 1000 : null);

/** How long ago a time was. */
export const ago = (time) =>
  time ? `${span(Math.max(Math.round((Date.now() - new Date(time)) / 1000), 1))} ago` : "";
/** Since when executions were read; nothing if all there are were. */
export const since = (stack) =>
  stack?.since ? `since ${day(stack.since)} ${clock(stack.since)} UTC` : "";
export const plural = (count, one, many = `${one}s`) =>
  `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

/** What tells an execution from others: its key, as far as the log tells that. */
export const nameOf = ({ key, record_id: record, id }) => key ?? record ?? id;

/** A sequencer or an ID, short enough for a table. */
export const short = (text, length = 8) =>
  text && text.length > length + 4 ? `…${text.slice(-length)}` : (text ?? "");
