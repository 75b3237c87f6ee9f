// The style sheets of parts of the page that are loaded when somebody opens them.

/** Load a style sheet of this directory. Rejects if it cannot be loaded. */
export const loadStyles = (name) =>
  new Promise((resolve, reject) => {
    const link = document.createElement("link");
    Object.assign(link, { rel: "stylesheet", href: new URL(name, import.meta.url).href, onload: resolve, onerror: reject });
    document.head.append(link);
  });
