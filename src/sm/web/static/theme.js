// Sets the chosen colours before the page is drawn. A plain script, because modules run after the first drawing.
const chosenTheme = localStorage.getItem("sm.theme");
if (chosenTheme === "dark" || chosenTheme === "light") document.documentElement.dataset.theme = chosenTheme;
