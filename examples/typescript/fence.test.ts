/** Runs the vectors of the fence `newest` (tests/vectors/README.md), and the handler on one event. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { test } from "node:test";

import { Fence, type ObjectStore, Rejection } from "./fence.ts";

type Call = [operation: string, input: Record<string, unknown>, answer: Record<string, unknown>];
const FOLDER = new URL("../../tests/vectors/", import.meta.url);
const read = (name: string) => JSON.parse(readFileSync(new URL(name, FOLDER), "utf8"));
const NAMED: Record<string, Call> = read("calls.json");
const FILES = readdirSync(FOLDER).filter((name) => name.endsWith(".json") && name !== "calls.json");
const DAYS = 7;
const [encoder, decoder] = [new TextEncoder(), new TextDecoder()];
Math.random = () => 0; // no pauses
Date.now = () => 999;

class Bad extends Rejection {
  override name = "Bad";
}

/** An S3 that expects these calls, and answers them; `open` has the bodies that are still open. */
function replay(calls: Call[], open: Set<unknown>): ObjectStore {
  const call = (name: string) => async (input: Record<string, unknown>) => {
    const next = calls.shift();
    assert.ok(next, `${name} is one call more`);
    const [operation, expected, answer] = next;
    const sent = input.Body ? { ...input, Body: decoder.decode(input.Body as Uint8Array) } : input;
    assert.deepEqual([name, sent], [operation, expected]);
    if ("status" in answer) {
      const $metadata = { httpStatusCode: answer.status };
      throw Object.assign(new Error(), { name: answer.code ?? String(answer.status), $metadata });
    }
    if (!("Body" in answer)) return answer;
    const content = encoder.encode(answer.Body as string);
    const destroy = () => open.delete(Body);
    const Body = { destroy, transformToByteArray: async () => (destroy(), content) };
    open.add(Body);
    return { ContentLength: content.length, ...answer, Body };
  };
  return {
    headObject: call("HeadObject"),
    getObject: call("GetObject"),
    putObject: call("PutObject"),
    deleteObject: call("DeleteObject"),
  } as ObjectStore;
}

for (const file of FILES) {
  for (const vector of read(file)) {
    if (vector.fence !== "newest") continue;
    test(`${file}: ${vector.name}`, async () => {
      const calls: Call[] = Array(vector.times ?? 1)
        .fill(vector.calls)
        .flat()
        .map((call) => NAMED[call] ?? call);
      const [open, worked] = [new Set<unknown>(), [] as string[]];
      const fence = new Fence({
        s3: replay(calls, open),
        outputBucket: "output",
        maximumBytes: 100,
        work: (content) => {
          const text = decoder.decode(content);
          worked.push(text);
          if (text === "bad") throw new Bad("It is bad.");
          return { content: encoder.encode(`made of ${text}`), contentType: "text/plain" };
        },
        handlesDeletions: vector.handles_deletions ?? true,
        handsOn: vector.hands_on,
        version: vector.version,
      });
      const event = {
        "detail-type": vector.created ? "Object Created" : "Object Deleted",
        detail: {
          bucket: { name: vector.bucket ?? "input" },
          object: vector.created ?? vector.deleted,
          "code-version": vector.wanted,
        },
      };
      const answered = fence.answer({ event, fence: vector.fence }, DAYS);
      if (vector.fault) {
        await assert.rejects(answered, { name: vector.fault });
      } else {
        const { expires_at, ...answer } = await answered;
        const days = answer.outcome === "Rejected" ? 15 : DAYS;
        assert.equal(expires_at, String(days * 86_400));
        const { cause, ...rest } = { cause: "", ...answer };
        assert.deepEqual(rest, vector.answer);
        assert.equal(cause !== "", answer.outcome === "Rejected");
      }
      assert.deepEqual([calls, open.size], [[], 0]);
      assert.equal(new Set(worked).size, worked.length);
    });
  }
}

test("the handler answers, and an unknown fence is a fault", async () => {
  const sdk = `export class S3 {
    headObject = () => ({ ETag: "1" });
    getObject = () => ({ ContentLength: 1, Body: { transformToByteArray: () => Uint8Array.of(255) } });
  }`;
  const stub = { url: `data:text/javascript,${encodeURIComponent(sdk)}`, shortCircuit: true };
  registerHooks({
    resolve: (name, ...more) => (name.startsWith("@aws-sdk/") ? stub : more[1](name, more[0])),
  });
  const settings = { OUTPUT_BUCKET: "output", MAXIMUM_BYTES: "1", HANDLES_DELETIONS: "true" };
  Object.assign(process.env, { ...settings, RECORD_RETENTION_DAYS: "7" });
  const { handler } = await import("./app.ts");
  const object = { key: "x", sequencer: "0B", etag: "b" };
  const event = { "detail-type": "Object Created", detail: { bucket: { name: "input" }, object } };
  await assert.rejects(handler({ event, fence: "other" }), /no fence other/);
  assert.equal((await handler({ event, fence: "newest" })).outcome, "Rejected");
});
