// The address: #/view/id?parameters. Every filter and selection is in it, so that it can be shared.
import { useEffect, useState } from "inorder/html";
import { query } from "inorder/api";

function parse() {
  const [path, search = ""] = location.hash.slice(1).split(/\?(.*)/s);
  const [, view = "", ...rest] = path.split("/");
  const id = rest.join("/");
  let name = id;
  try {
    name = decodeURIComponent(id);
  } catch {
    /* an address that somebody has cut off */
  }
  return {
    view: view || "executions",
    id: name,
    parameters: Object.fromEntries(new URLSearchParams(search)),
  };
}

export const href = (view, id, parameters = {}) =>
  `#/${view}${id === undefined ? "" : `/${encodeURIComponent(id)}`}${query(parameters)}`;

export function useRoute() {
  const [route, setRoute] = useState(parse);
  useEffect(() => {
    const changed = () => setRoute(parse());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

/** Change some parameters of the address without a new entry in the history. */
export function change(changes) {
  const { view, id, parameters } = parse();
  history.replaceState(null, "", href(view, id || undefined, { ...parameters, ...changes }));
  dispatchEvent(new HashChangeEvent("hashchange"));
}
