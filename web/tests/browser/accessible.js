// Accessibility: the issues that axe finds, and the keyboard as the only means.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { until } from "./support.js";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** More than the elements of any screen. */
const MAX_TABS = 300;

/** The serious issues of a page in both themes, each with this name. */
export async function issuesInBothThemes(page, name) {
  // Through the debugging protocol, which the content security policy does not concern.
  await page.evaluate(`window.axe || (() => { ${axe} })(); 0`);
  const found = [];
  for (const theme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: theme });
    await until(`the ${theme} theme`, () =>
      page.evaluate((theme) => document.documentElement.dataset.theme === theme, theme),
    );
    for (const issue of await seriousIssues(page)) found.push(`${name}, ${theme}: ${issue}`);
  }
  return found;
}

async function seriousIssues(page) {
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const nodeText = ({ target, failureSummary }) => `${target.join(" ")} ${failureSummary}`;
  return violations
    .filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => `${id}: ${nodes.map(nodeText).join(" | ")}`);
}

export async function press(page, ...keys) {
  for (const key of keys) await page.keyboard.press(key);
}

/** Moves the focus with Tab, or another key, until it is on this element. */
export async function reach(page, element, key = "Tab") {
  await until("it can have the focus", () => element.isEnabled());
  for (let steps = 0; steps < MAX_TABS; steps += 1) {
    // An element in a shadow tree is the active one of that tree.
    if (await element.evaluate((one) => one.getRootNode().activeElement === one)) return;
    await press(page, key);
  }
  assert.fail(`${element} is not reached by ${key}`);
}

/** Moves the focus to this element, then presses Enter, or another key. */
export async function activate(page, element, key = "Enter") {
  await reach(page, element);
  await press(page, key);
}
