// What the other modules draw with.
import { h } from "preact";
import htm from "htm";

export { Fragment, render } from "preact";
export {
  useCallback,
  useEffect,
  useErrorBoundary,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "preact/hooks";
export const html = htm.bind(h);
