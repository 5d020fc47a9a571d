"""How well the text of a page can be read, as WCAG 2 measures it: for every piece of text the contrast between its
colour and what is really behind it, as a filter of helpers/paper.py shows them: (L₁ + 0.05) / (L₂ + 0.05) of the
relative luminances. 4.5 is asked for."""

from typing import Any

ENOUGH = 4.5
MEASURE = """
root => {
  const parse = text => { const n = text.match(/[\\d.]+/g).map(Number);
    return [n[0], n[1], n[2], n.length > 3 ? n[3] : 1]; };
  const over = (top, below) => [0, 1, 2].map(i => top[3] * top[i] + (1 - top[3]) * below[i]);
  const channel = c => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const luminance = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const ground = element => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const clamp = c => c.map(x => Math.min(255, Math.max(0, x)));
  const turned = element => getComputedStyle(element.closest('.attention-paper') ?? root).filter !== 'none';
  const rows = [[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]];  // hue-rotate(180deg)
  const turn = c => clamp(rows.map(row => row.reduce((sum, weight, i) => sum + weight * (237.15 - 0.86 * c[i]), 0)));
  root.querySelectorAll('details').forEach(e => e.open = true);
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    if (!text) continue;
    let behind = ground(element), ink = over(parse(getComputedStyle(element).color), behind);
    if (turned(element)) [behind, ink] = [turn(behind), turn(ink)];
    const [dark, light] = [luminance(behind), luminance(ink)].sort((a, b) => a - b);
    found.push([(light + 0.05) / (dark + 0.05), text.slice(0, 40), element.tagName]);
  }
  return found;
}
"""


def contrasts(element: Any) -> list[tuple[float, str, str]]:
    """(contrast, text, tag) of every piece of text in a Playwright locator's element, the worst first."""
    return sorted(map(tuple, element.evaluate(MEASURE)))
