// Theme, contents on a narrow screen, keys for what is too wide, search. Everything else works without.
const home = document.body.dataset.home, root = document.documentElement;
const $ = (id) => document.getElementById(id);

$("theme").onclick = () => { root.dataset.theme = localStorage.theme = root.dataset.theme === "dark" ? "light" : "dark"; };
$("menu").onclick = () => $("menu").setAttribute("aria-expanded", document.body.classList.toggle("open"));
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => (one.open = true)));

function reachable() { // what is wider than its place can be scrolled by keys, a film's picture too
  for (const one of document.querySelectorAll("math, table, .text, .made, .outputs, .code, [data-film] > div")) {
    if (one.scrollWidth <= one.clientWidth || getComputedStyle(one).overflowX !== "auto") continue;
    one.setAttribute("tabindex", 0);
    if (one.closest("[data-film]")) one.onkeydown = (event) => event.stopPropagation();
  }
}
reachable();
document.fonts.ready.then(reachable); // formulas are wider in their own font
addEventListener("resize", reachable);

function hits(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const worth = ({ title, text }) => {
    const [t, x] = [title.toLowerCase(), text.toLowerCase()];
    return words.every((w) => t.includes(w) || x.includes(w)) ? words.reduce((sum, w) => sum + (t.includes(w) ? 10 : 1), 0) : 0;
  };
  return PLACES.map((one) => [worth(one), one]).filter(([w]) => w).sort(([a], [b]) => b - a).slice(0, 12).map(([, one]) => one);
}

function around({ text }, query) {
  const at = text.toLowerCase().indexOf(query.toLowerCase().split(/\s+/)[0]);
  return at < 0 ? text.slice(0, 90) : (at > 40 ? "… " : "") + text.slice(Math.max(0, at - 40), at + 70) + " …";
}

$("search").oninput = () => {
  const query = $("search").value.trim(), found = hits(query);
  $("hits").replaceChildren(...found.map((one) => {
    const item = document.createElement("li"), link = document.createElement("a"), small = document.createElement("small");
    link.href = home + one.to;
    link.textContent = one.title;
    small.textContent = `${one.unit}: ${around(one, query)}`;
    link.append(small);
    item.append(link);
    return item;
  }));
  $("hits").hidden = !found.length;
};
addEventListener("keydown", (event) => {
  if (event.key === "/" && !/INPUT|TEXTAREA/.test(event.target.tagName)) { event.preventDefault(); $("search").focus(); }
  if (event.key === "Escape") { $("hits").hidden = true; $("search").blur(); }
  if (event.key === "Enter" && event.target === $("search")) $("hits").querySelector("a")?.click();
});
addEventListener("click", (event) => { if (!event.target.closest(".search")) $("hits").hidden = true; });
