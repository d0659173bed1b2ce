/** Lambda handler: writes the text of each object in capitals, behind the fence. */

import { S3 } from "@aws-sdk/client-s3";

import { type Answer, Fence, type Payload, Rejection, type Result } from "./fence.ts";

const fence = new Fence({
  // Its attempts end before the function times out.
  s3: new S3({
    maxAttempts: 3,
    requestHandler: { connectionTimeout: 2000, socketTimeout: 4000 },
  }),
  outputBucket: setting("OUTPUT_BUCKET"),
  maximumBytes: Number(setting("MAXIMUM_BYTES")),
  work,
  handlesDeletions: setting("HANDLES_DELETIONS") === "true",
  version: "1", // change it when the outputs change
});
const recordRetentionDays = Number(setting("RECORD_RETENTION_DAYS"));

export function handler(payload: Payload): Promise<Answer> {
  return fence.answer(payload, recordRetentionDays);
}

function work(content: Uint8Array): Result {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(content);
  } catch {
    throw new Rejection("The object is not UTF-8.");
  }
  return { content: new TextEncoder().encode(text.toUpperCase()), contentType: "text/plain" };
}

function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`The environment has no ${name}.`);
  return value;
}
