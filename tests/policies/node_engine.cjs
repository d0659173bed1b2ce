/*
 * Runs an execution in aws-local-stepfunctions, and prints its output: for `make test-node-engine`.
 *
 * Standard input has the state machine's ARN, its definition, and the execution's input. The engine
 * itself can only invoke functions, so this makes all calls with AWS's own packages, and gives the
 * results and errors the shape that they have in Step Functions.
 */
const { randomUUID } = require("node:crypto");
const { text } = require("node:stream/consumers");
const { StateMachine } = require("aws-local-stepfunctions");

// Its States.StringSplit takes the second argument for one separator. On AWS, each character of it
// is one, and empty parts are left out.
const HEXADECIMAL = "0123456789ABCDEFabcdef";
const split = String.prototype.split;
String.prototype.split = function (separator, limit) {
  const isSet = separator === HEXADECIMAL;
  return isSet ? split.call(this, /[0-9A-Fa-f]/).filter(Boolean) : split.call(this, separator, limit);
};

const NAMES = { dynamodb: "DynamoDB", events: "EventBridge", lambda: "Lambda", sqs: "SQS" };
const region = process.env.AWS_DEFAULT_REGION;
const SENT_AS_TEXT = new Set(["Detail", "MessageBody", "Payload"]);

const clients = Object.entries(NAMES).map(([service, name]) => {
  const packaged = require(`@aws-sdk/client-${name.toLowerCase()}`);
  return [service, { name, packaged, client: new packaged[`${name}Client`]({ region }) }];
});
const services = Object.fromEntries(clients);

function asText(name, value) {
  return SENT_AS_TEXT.has(name) && typeof value !== "string" ? JSON.stringify(value) : value;
}

async function call(resource, parameters) {
  const [service, operation] = resource.split(":").slice(-2);
  const { name, packaged, client } = services[service];
  const Command = packaged[`${operation[0].toUpperCase()}${operation.slice(1)}Command`];
  const sent = JSON.parse(JSON.stringify(parameters, asText));
  const result = await client.send(new Command(sent)).catch((error) => {
    error.name = `${name}.${error.name}`;
    throw error;
  });
  delete result.$metadata;
  if (result.Payload) result.Payload = JSON.parse(result.Payload.transformToString());
  if (result.FunctionError) {
    const { errorMessage, errorType } = result.Payload;
    throw Object.assign(new Error(errorMessage), { name: errorType });
  }
  return result;
}

const started = []; // by other executions

function run(arn, definition, input) {
  const id = randomUUID();
  const tasks = Object.entries(definition.States).filter(([, state]) => state.Type === "Task");
  const handler = ({ Resource: resource }) => (parameters) => {
    if (!resource.endsWith(":startExecution")) return call(resource, parameters);
    started.push(run(arn, definition, parameters.Input));
    return {};
  };
  const context = {
    Execution: { Id: `${arn.replace(":stateMachine:", ":execution:")}:${id}`, Name: id },
    State: { get EnteredTime() { return new Date().toISOString(); } },
    StateMachine: { Id: arn, Name: arn.split(":").at(-1) },
  };
  const handlers = Object.fromEntries(tasks.map(([name, state]) => [name, handler(state)]));
  const overrides = { taskResourceLocalHandlers: handlers };
  const { result } = new StateMachine(definition).run(input, { context, overrides });
  return result.catch(({ cause, name }) => ({ outcome: cause?.name ?? name }));
}

async function main() {
  const { arn, definition, input } = JSON.parse(await text(process.stdin));
  const output = await run(arn, definition, input);
  while (started.length) await started.shift();
  console.log(JSON.stringify(output));
}

main();
