// What the other modules draw with.
import { h } from "preact";
import htm from "htm";

export { render } from "preact";
export { useCallback, useEffect, useErrorBoundary, useMemo, useRef, useState } from "preact/hooks";
export const html = htm.bind(h);
