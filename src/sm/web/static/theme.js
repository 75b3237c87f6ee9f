// Sets the chosen colours and density before the page is drawn. A plain script, because modules run after the first drawing.
for (const [kind, names] of [["theme", ["dark", "light"]], ["density", ["compact"]]]) {
  const chosen = localStorage.getItem(`sm.${kind}`);
  if (names.includes(chosen)) document.documentElement.dataset[kind] = chosen;
}
