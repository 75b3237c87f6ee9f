// Styles that are set while the page runs. Its policy forbids inline styles, so they are in style sheets.

const sheet = new CSSStyleSheet();
sheet.replaceSync(":root {}");
document.adoptedStyleSheets.push(sheet);

/** Set a custom property of the page, such as `--columns`. */
export function setProperty(name, value) {
  const { style } = sheet.cssRules[0];
  if (style.getPropertyValue(name) !== value) style.setProperty(name, value);
}

const loading = new Map(); // by name

/** Load a style sheet of this directory, once. Rejects if it cannot be loaded. */
export function loadStyles(name) {
  const load = (resolve, reject) => {
    const link = document.createElement("link");
    Object.assign(link, { rel: "stylesheet", href: new URL(name, import.meta.url).href, onload: resolve, onerror: reject });
    document.head.append(link);
  };
  if (!loading.has(name)) loading.set(name, new Promise(load));
  return loading.get(name);
}
