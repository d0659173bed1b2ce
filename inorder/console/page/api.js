// Where the data come from: the server of `inorder console` or, in a saved page, the page itself.
export const report = document.getElementById("report");
// A page with a report has several stacks; what follows the ? in its address names one.
const embedded = document.getElementById(`saved${report ? location.search : ""}`);
export const saved = embedded ? JSON.parse(embedded.textContent) : null;
export const savedAt = saved?.saved;

// The address that the command prints ends with #token=..., which other pages cannot read. Each
// request has the token in a header, not in a cookie, which a browser would also send to other
// ports.
const NAME = "inorder-token";
const tokenIn = (address) => new URLSearchParams(address.split("#")[1]).get("token");
const token = () => localStorage.getItem(NAME) ?? "";
export const hasToken = Boolean(saved || tokenIn(location.hash) || token());

/** Remember the token that is in the address. */
function learn() {
  if (!tokenIn(location.hash)) return false;
  localStorage.setItem(NAME, tokenIn(location.hash).replace(/[^\w-]/g, ""));
  history.replaceState(null, "", "#/executions");
  return true;
}

if (!saved) {
  learn();
  addEventListener("hashchange", () => learn() && location.reload());
  addEventListener("storage", (event) => event.key === NAME && location.reload());
}

/** Parameters as they are in an address, without those that are empty. */
export const query = (parameters) => {
  const entries = Object.entries(parameters).filter(
    ([, value]) => value !== undefined && value !== null && value !== "",
  );
  return entries.length ? `?${new URLSearchParams(entries)}` : "";
};

async function answer(response) {
  if (response.status === 401) dispatchEvent(new Event("inorder-locked"));
  const body = await response
    .json()
    .catch(() => ({ error: `The server answered ${response.status}.` }));
  if (!response.ok) throw new Error(body.error || `The server answered ${response.status}.`);
  return body;
}

const unreachable = () => {
  throw new Error("The server of this page cannot be reached. Does inorder console still run?");
};

/** Read a part of the data. */
export async function get(path, parameters = {}) {
  if (!saved) {
    const headers = { "X-Inorder-Token": token() };
    return answer(await fetch(path + query(parameters), { headers }).catch(unreachable));
  }
  const part = saved[path];
  const name = { "/api/execution": parameters.arn, "/api/story": parameters.key }[path];
  if (name === undefined) return part;
  if (!Object.hasOwn(part, name)) throw new Error("The saved page does not have this.");
  // A story in a saved page names its executions, which are there once.
  const { executions } = part[name];
  return executions
    ? { ...part[name], executions: executions.map((arn) => saved["/api/execution"][arn]) }
    : part[name];
}
