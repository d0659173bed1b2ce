/**
 * The fence `newest`: an older event's output never replaces a newer event's.
 *
 * The policies latest-wins and first-wins need it. It makes the same calls and gives the same answers
 * as functions/inorder_fence/fenced_output.py, which explains each step, and which has the fences of
 * the other policies; tests/vectors has them as data, and fence.test.ts runs those of this one.
 *
 *     1 read the output         its ETag, and the sequencer in its metadata
 *     2 read the source         only if it is still the object that the event names
 *     3 write the output        only if its ETag is still that of step 1
 *     4 check the source again  only where step 3 cannot notice a deletion
 */

/** What the fence needs of S3. The `S3` of @aws-sdk/client-s3 has it. */
export interface ObjectStore {
  headObject(input: Place): Promise<{ ETag?: string; Metadata?: Metadata; VersionId?: string }>;
  getObject(input: Place & Condition): Promise<Found>;
  putObject(input: Place & Condition & Written): Promise<unknown>;
  deleteObject(input: Place & Condition): Promise<unknown>;
}

type Metadata = Record<string, string>;
type Place = { Bucket: string; Key: string };
type Condition = { IfMatch?: string; IfNoneMatch?: string };
type Written = HandedOn & { Body: Uint8Array; ContentType: string; Metadata: Metadata };
/** What an output may get from its source. */
export type HandedOn = {
  CacheControl?: string;
  ContentDisposition?: string;
  ContentLanguage?: string;
  Metadata?: Metadata;
};
type Found = HandedOn & {
  Body?: { transformToByteArray(): Promise<Uint8Array>; destroy?: () => unknown };
  ContentLength?: number;
  ETag?: string;
  VersionId?: string;
};

/** What `work` makes of a source's content. */
export interface Result {
  content: Uint8Array;
  contentType: string;
}

export interface Options {
  s3: ObjectStore;
  outputBucket: string;
  /** Size of the largest source that is read. */
  maximumBytes: number;
  /** Makes the output. Called once, unless the content changes. */
  work: (content: Uint8Array) => Result | Promise<Result>;
  /** Whether the output of a deleted source is deleted. */
  handlesDeletions: boolean;
  /** Puts an event's stamp into an output's content, so that its ETag is its own. */
  stamped?: (content: Uint8Array, stamp: Uint8Array) => Uint8Array;
  /** What an output gets from its source. */
  handsOn?: (keyof HandedOn)[];
  /** Of the code of the work, in ASCII: a constant in it. Each output names it in its metadata. */
  version?: string;
}

/** What the state machine sends. */
export interface Payload {
  event: {
    "detail-type": string;
    detail: {
      bucket: { name: string };
      object: Record<string, unknown>;
      /** Of a repair: the version of the code that is to have made the output. */
      "code-version"?: string;
    };
  };
  fence: string;
}

export type Answer = { expires_at: string } & (
  | { outcome: "Processed" | "Superseded"; output_key: string }
  | { outcome: "Rejected"; error: string; cause: string }
);

/** The source cannot have an output. Another attempt would not help. */
export class Rejection extends Error {
  override name: string;

  constructor(message: string, name = "Rejection") {
    super(message);
    this.name = name;
  }
}

/** In each attempt, another writer changed the output between steps 1 and 3: a fault. */
export class OutputContended extends Error {
  override name = "OutputContended";
}

/** A repair wants the output of another version of the code: a fault. */
export class OtherCodeVersion extends Error {
  override name = "OtherCodeVersion";
}

const ATTEMPTS = 5;
const MAXIMUM_KEY_BYTES = 1024;
const NULL_VERSION = "null"; // the ID of an object that has no version of its own
// By the code with which S3 refuses to read an object. Any other refusal may pass, and is a fault.
const LASTING_REFUSALS = new Map([
  ["InvalidObjectState", "The object is archived. It can be read when it has been restored."],
  ["InvalidRequest", "The object is encrypted with a key that each request must bring (SSE-C)."],
  ["KMS.DisabledException", "The object is encrypted with a KMS key that is disabled."],
]);

type SourceEvent = {
  bucket: string;
  key: string;
  sequencer: string;
  etag: string;
  versionId?: string;
  isDeletion: boolean;
  codeVersion?: string;
};
type Output = { outcome: "Processed" | "Superseded"; key: string };
type OutputState = { etag?: string; metadata: Metadata };
type Made = { etag?: string; result?: Result };
type Source = { content: Uint8Array; handedOn: HandedOn };
type Attempt = "done" | "superseded" | "again" | "stale";
type Order = "older" | "same" | "newer" | "unknown";

export class Fence {
  readonly #s3: ObjectStore;
  readonly #options: Options;

  constructor(options: Options) {
    this.#s3 = options.s3;
    this.#options = options;
  }

  /** Process an event, and answer the state machine. */
  async answer(payload: Payload, recordRetentionDays: number): Promise<Answer> {
    const until = (days: number) => String(Math.floor(Date.now() / 1000) + days * 86_400);
    try {
      const event = readEvent(payload.event);
      const { codeVersion: wanted } = event;
      if (wanted !== undefined && wanted !== (this.#options.version ?? "")) {
        throw new OtherCodeVersion(`The repair wants version ${wanted} of the code.`);
      }
      if (payload.fence !== "newest") throw new Error(`There is no fence ${payload.fence}.`);
      const { outcome, key } = await this.#writeNewest(event);
      return { outcome, output_key: key, expires_at: until(recordRetentionDays) };
    } catch (error) {
      if (!(error instanceof Rejection)) throw error;
      // SQS keeps the parked event for 14 days.
      return { outcome: "Rejected", error: error.name, cause: error.message, expires_at: until(15) };
    }
  }

  /** Write a key's one output for its newest event; a deletion deletes it. */
  async #writeNewest(event: SourceEvent): Promise<Output> {
    if (event.bucket === this.#options.outputBucket) {
      throw invalidSource("The output bucket is the input bucket: each output would be input.");
    }
    const key = outputKey(event.key);
    const isTooLong = new TextEncoder().encode(key).length > MAXIMUM_KEY_BYTES;
    if (!event.isDeletion) {
      if (!isTooLong) return this.#settle(event, key, this.#applyCreation);
      throw invalidSource(`The output's key would be longer than ${MAXIMUM_KEY_BYTES} bytes.`);
    }
    if (!this.#options.handlesDeletions) return { outcome: "Superseded", key };
    if (isTooLong) return { outcome: "Processed", key }; // no event had an output
    return this.#settle(event, key, this.#followSource);
  }

  /** Make attempts until one of them gives an outcome. */
  async #settle(
    event: SourceEvent,
    key: string,
    attempt: (event: SourceEvent, key: string, made: Made) => Promise<Attempt>,
  ): Promise<Output> {
    const made: Made = {};
    let outcome: Output["outcome"] = "Processed";
    for (let count = 0; count < ATTEMPTS; count++) {
      await pause(count);
      const end = await attempt.call(this, event, key, made);
      if (end === "done") return { outcome, key };
      if (end === "superseded") return { outcome: "Superseded", key };
      if (end === "stale") {
        attempt = this.#followSource;
        outcome = "Superseded";
      }
    }
    throw new OutputContended(`The output ${key} changed under all attempts to write it.`);
  }

  /** Make the output that of a creation, unless it is that of a newer event. */
  async #applyCreation(event: SourceEvent, key: string, made: Made): Promise<Attempt> {
    const output = await this.#readOwnOutput(key, event); // step 1
    const order = orderOf(output, event);
    if (order === "newer") return "superseded";
    const isOutdated = output.metadata["code-version"] !== event.codeVersion;
    // By an attempt that may have died before its step 4.
    if (order === "same" && !(event.codeVersion && isOutdated)) return this.#checkSource(event);
    // By an event that the code has processed meanwhile.
    if (event.codeVersion && !isOutdated && shows(output, event)) return "superseded";
    return this.#replaceOutput(output, event, key, made);
  }

  /** Make the output that of the source as it is now; delete it if there is no source. */
  async #followSource(event: SourceEvent, key: string, made: Made): Promise<Attempt> {
    const output = await this.#readOwnOutput(key, event); // step 1
    const source = await this.#findSource(event); // step 2
    if (!source) return this.#deleteOrphan(output, event, key);
    if (!source.versionId) return "superseded"; // by the upload that came after
    if (shows(output, source)) return "superseded"; // the output is right already
    return this.#replaceOutput(output, source, key, made);
  }

  /** Take steps 2 to 4 for a source that exists. */
  async #replaceOutput(
    output: OutputState,
    source: SourceEvent,
    key: string,
    made: Made,
  ): Promise<Attempt> {
    const read = await this.#readSource(source); // step 2
    if (!read) return "superseded";
    const result = await this.#workOnce(source, read.content, made);
    if (!(await this.#writeOutput(key, result, source, read, output))) return "again"; // step 3
    // A deletion that was processed since step 1 would have made step 3 fail.
    if (orderOf(output, source) === "older") return "done";
    return this.#checkSource(source);
  }

  /** Take steps 3 and 4 for an output without a source. */
  async #deleteOrphan(output: OutputState, event: SourceEvent, key: string): Promise<Attempt> {
    if (!output.etag) return "done";
    if (!(await this.#deleteOutput(key, output.etag))) return "again"; // step 3
    return (await this.#findSource(event)) ? "again" : "done"; // step 4
  }

  /** Take step 4: find out whether the source is still there and is still this version. */
  async #checkSource(source: SourceEvent): Promise<Attempt> {
    if (!this.#options.handlesDeletions) return "done";
    const current = await this.#findSource(source);
    if (!current) return "stale";
    const isSame =
      named(current.versionId) === named(source.versionId) && current.etag === source.etag;
    return current.versionId && !isSame ? "stale" : "done";
  }

  // The single steps

  /** Read an output's ETag and metadata, unless the stack of another bucket has written it. */
  async #readOwnOutput(key: string, event: SourceEvent): Promise<OutputState> {
    let output: OutputState;
    try {
      const found = await this.#s3.headObject({ Bucket: this.#options.outputBucket, Key: key });
      output = { etag: found.ETag, metadata: found.Metadata ?? {} };
    } catch (error) {
      if (isMissing(error)) return { metadata: {} };
      throw error;
    }
    const other = otherBucket(output, event);
    if (!other) return output;
    throw new Rejection(
      `The output ${key} was made of the bucket ${other}, and the event is of the bucket ` +
        `${event.bucket}: each needs an output bucket.`,
      "OutputOfAnotherBucket",
    );
  }

  /** Find out what the source is now. */
  async #findSource(event: SourceEvent): Promise<SourceEvent | undefined> {
    const place = { Bucket: event.bucket, Key: event.key };
    try {
      const found = await this.#s3.headObject(place);
      return {
        ...event,
        etag: (found.ETag ?? "").replaceAll('"', ""),
        versionId: found.VersionId ?? (event.versionId && NULL_VERSION),
        isDeletion: false,
      };
    } catch (error) {
      if (isMissing(error)) return undefined;
      // Only the answer to GET has a code.
      if (statusOf(error) === 400) (await this.#openSource(place)).Body?.destroy?.();
      throw error;
    }
  }

  /** Read the source, if it is still the object that the event names, and no folder. */
  async #readSource(source: SourceEvent): Promise<Source | undefined> {
    const place = { Bucket: source.bucket, Key: source.key };
    let found: Found;
    try {
      found = await this.#openSource({ ...place, IfMatch: `"${source.etag}"` });
    } catch (error) {
      if (isMissing(error) || statusOf(error) === 412) return undefined;
      throw error;
    }
    const { maximumBytes, handsOn = [] } = this.#options;
    const { Body, ContentLength } = found;
    if (!Body || ContentLength === undefined) throw new Error("S3 gave no content.");
    const isOther = named(found.VersionId) !== named(source.versionId);
    if (isOther || ContentLength > maximumBytes || (!ContentLength && source.key.endsWith("/"))) {
      Body.destroy?.();
      if (isOther || !ContentLength) return undefined;
      throw invalidSource(`The object is larger than ${maximumBytes} bytes.`);
    }
    const content = await Body.transformToByteArray();
    const names = handsOn.filter((name) => found[name] !== undefined);
    return { content, handedOn: Object.fromEntries(names.map((name) => [name, found[name]])) };
  }

  /** Ask for the source's content, and tell S3's lasting refusals from those that may pass. */
  async #openSource(input: Place & Condition): Promise<Found> {
    try {
      return await this.#s3.getObject(input);
    } catch (error) {
      const reason = LASTING_REFUSALS.get(codeOf(error));
      if (reason) throw new Rejection(reason, "SourceUnreadable");
      throw error;
    }
  }

  /** Call `work`, unless the attempt before has called it for the same content. */
  async #workOnce(source: SourceEvent, content: Uint8Array, made: Made): Promise<Result> {
    if (!made.result || made.etag !== source.etag) {
      made.result = undefined; // there is memory for one
      made.result = await this.#options.work(content);
      made.etag = source.etag;
    }
    return made.result;
  }

  /** Write an output if there is still the one that was read, or none, and tell whether it was. */
  async #writeOutput(
    key: string,
    result: Result,
    event: SourceEvent,
    source: Source,
    { etag }: OutputState,
  ): Promise<boolean> {
    const { "source-version-id": _, "code-version": __, ...metadata } =
      source.handedOn.Metadata ?? {};
    const { stamped = appendStamp, version } = this.#options;
    const stamp = new TextEncoder().encode(`${event.sequencer}#${event.versionId ?? ""}`);
    try {
      await this.#s3.putObject({
        ...source.handedOn,
        Bucket: this.#options.outputBucket,
        Key: key,
        Body: stamped(result.content, stamp),
        ContentType: result.contentType,
        Metadata: {
          ...metadata,
          sequencer: event.sequencer,
          "source-bucket": event.bucket,
          "source-etag": event.etag,
          ...(event.versionId && { "source-version-id": event.versionId }),
          ...(version && { "code-version": version }),
        },
        ...(etag ? { IfMatch: etag } : { IfNoneMatch: "*" }),
      });
      return true;
    } catch (error) {
      if (isFailedCondition(error)) return false;
      if (codeOf(error) !== "MetadataTooLarge") throw error;
      throw invalidSource("The metadata would be larger than S3 takes.");
    }
  }

  /** Delete an output if it still has this ETag, and tell whether it had. */
  async #deleteOutput(key: string, etag: string): Promise<boolean> {
    const place = { Bucket: this.#options.outputBucket, Key: key };
    try {
      await this.#s3.deleteObject({ ...place, IfMatch: etag });
      return true;
    } catch (error) {
      if (isFailedCondition(error)) return false;
      throw error;
    }
  }
}

/** Read an event of S3, as EventBridge delivers it. */
function readEvent(event: Payload["event"]): SourceEvent {
  const { bucket, object } = event.detail;
  const isDeletion = event["detail-type"] === "Object Deleted";
  const read = {
    bucket: text(bucket.name, "bucket"),
    key: text(object.key, "key"),
    sequencer: text(object.sequencer, "sequencer"),
    etag: isDeletion ? "" : text(object.etag, "etag"),
    versionId: named(object["version-id"]),
    isDeletion,
    codeVersion: event.detail["code-version"],
  };
  if (isSequencer(read.sequencer)) return read;
  throw new Rejection("The event's sequencer is not a hexadecimal number.", "InvalidEvent");
}

function text(value: unknown, name: string): string {
  if (typeof value === "string" && value) return value;
  throw new Rejection(`The event has no ${name}.`, "InvalidEvent");
}

/** Tell whether S3 may have written a sequencer: who can write outputs can lie. */
function isSequencer(sequencer: string): boolean {
  return /^[0-9A-Fa-f]{1,128}$/.test(sequencer);
}

/** Give a version's ID, or nothing for an object without a version of its own. */
function named(versionId: unknown): string | undefined {
  if (typeof versionId !== "string" || versionId === NULL_VERSION) return undefined;
  return versionId || undefined;
}

/** Name the bucket of which an output was made, if it is not the event's. */
function otherBucket({ metadata }: OutputState, event: SourceEvent): string | undefined {
  const bucket = metadata["source-bucket"]; // earlier versions of the fence named none
  return bucket === event.bucket ? undefined : bucket;
}

/** Tell whether an output was made of a source, whatever its event. */
function shows({ metadata }: OutputState, source: SourceEvent): boolean {
  const isSame = named(metadata["source-version-id"]) === named(source.versionId);
  return isSame && metadata["source-etag"] === source.etag;
}

/** Compare an output's event with another one. Sequencers of two versions do not compare. */
function orderOf(output: OutputState, event: SourceEvent): Order {
  const { sequencer = "", "source-version-id": versionId = "" } = output.metadata;
  if (!isSequencer(sequencer) || otherBucket(output, event)) return "unknown";
  if (versionId !== (event.versionId ?? "")) return "unknown";
  if (event.versionId) return "same"; // a version is created once
  const width = Math.max(sequencer.length, event.sequencer.length);
  const one = sequencer.padEnd(width, "0");
  const other = event.sequencer.padEnd(width, "0");
  if (one === other) return "same";
  return one < other ? "older" : "newer";
}

function outputKey(key: string): string {
  const slash = key.lastIndexOf("/") + 1;
  return `${key.slice(0, slash)}out-${key.slice(slash)}`;
}

function invalidSource(message: string): Rejection {
  return new Rejection(message, "InvalidSource");
}

function appendStamp(content: Uint8Array, stamp: Uint8Array): Uint8Array {
  const stamped = new Uint8Array(content.length + 1 + stamp.length);
  stamped.set(content);
  stamped[content.length] = 0x0a;
  stamped.set(stamp, content.length + 1);
  return stamped;
}

/** Pause between attempts for a random time, which spreads the writers. */
function pause(count: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.random() * 100 * count));
}

function statusOf(error: unknown): number | undefined {
  return (error as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode;
}

function codeOf(error: unknown): string {
  return (error as { name?: string }).name ?? "";
}

/** Tell whether there is no object, or (405) a delete marker. A missing bucket is a fault. */
function isMissing(error: unknown): boolean {
  return [404, 405].includes(statusOf(error) ?? 0) && codeOf(error) !== "NoSuchBucket";
}

/** 412: another ETag. 409: another write is in progress. 404: the output was deleted meanwhile. */
function isFailedCondition(error: unknown): boolean {
  return isMissing(error) || [409, 412].includes(statusOf(error) ?? 0);
}
