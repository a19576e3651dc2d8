// Writes docs/screenshots: every screen in both sizes and both themes, from a real hub and host.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import {
  DESKTOP,
  PHONE,
  gitRepository,
  onScreen,
  standardStage,
  startRun,
  write,
} from "./browser/support.js";
import { withPalette } from "./palette.js";

const out = resolve(dirname(fileURLToPath(import.meta.url)), "../../docs/screenshots");
mkdirSync(out, { recursive: true });
const OUTPUT =
  "printf '\\033[1;32m   Compiling\\033[0m example v0.1.0\\n\\033[1;32m    Finished\\033[0m test profile\\n\\nrunning 3 tests\\ntest parses ... \\033[32mok\\033[0m\\ntest greets ... \\033[32mok\\033[0m\\ntest exits ... \\033[31mFAILED\\033[0m\\n\\nSee https://example.com/logs\\n'";

const stage = await standardStage();
// A path that people read.
const directory = join(tmpdir(), "greeter");
mkdirSync(directory);
try {
  await stage.end(stage.host);
  stage.host = await stage.startHost("box", { root: directory });
  gitRepository(directory);
  write(
    directory,
    "src/main.rs",
    'use std::io;\n\n/// Prints a greeting.\nfn main() -> io::Result<()> {\n    let name = "world"; // the default\n    println!("hello, {name}");\n    Ok(())\n}\n',
  );
  write(directory, "README.md", "# Example\n\nA small project.\n");
  write(directory, "Makefile", `test:\n\t@sh .run/test.sh\nstatus:\n\t@git status\n`);
  write(directory, ".run/test.sh", `${OUTPUT}\nexec cat\n`);
  const page = await stage.signedIn("admin");
  await startRun(page, "make status");
  await page.getByText("Exit 0").first().waitFor();
  const run = await startRun(page, "make test");
  await onScreen(page, "FAILED");
  await page.getByRole("tab", { name: "Files" }).click();
  await page.getByRole("treeitem", { name: "README.md" }).click();
  await page.getByRole("button", { name: "Edit" }).click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("It greets the world.\n");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("article").getByText("+It greets the world.").waitFor();
  await page.getByRole("button", { name: "Share" }).click();
  await page.getByRole("button", { name: "Create link" }).click();
  const share = await page.getByLabel("Share link").inputValue();
  const screens = {
    home: ["/", () => page.getByText("+It greets the world.").waitFor()],
    approvals: ["/approvals", () => page.getByText("+It greets the world.").waitFor()],
    "new-run": ["/new", () => page.getByRole("button", { name: "Start" }).waitFor()],
    hosts: ["/hosts", () => page.getByRole("link", { name: "Online" }).waitFor()],
    host: ["/hosts/box", () => page.getByRole("heading", { name: "Doctor" }).waitFor()],
    audit: ["/audit", () => page.getByText("user.sign_in").first().waitFor()],
    settings: [
      "/settings",
      async () => {
        await page.getByText("olga", { exact: true }).waitFor();
        await page.getByRole("button", { name: "Turn on notifications" }).waitFor();
      },
    ],
    terminal: [`/runs/${run}/terminal`, () => onScreen(page, "FAILED")],
    activity: [`/runs/${run}/activity`, () => page.getByText("Run started").waitFor()],
    files: [
      `/runs/${run}/files`,
      async () => {
        await page.getByRole("treeitem", { name: "src" }).click();
        await page.getByRole("treeitem", { name: "main.rs" }).click();
        await page.getByText("Prints a greeting").waitFor();
      },
    ],
    git: [`/runs/${run}/git`, () => page.getByText("+changed world").waitFor()],
    share: [share, () => onScreen(page, "FAILED")],
    login: ["/login", () => page.getByRole("button", { name: "Sign in" }).waitFor()],
  };
  for (const [name, [path, ready]] of Object.entries(screens)) {
    if (name === "terminal") {
      // Answered, so that the card leaves room for the run.
      await page.goto(`/runs/${run}/terminal`);
      await page.getByRole("button", { name: "Approve", exact: true }).click();
      await page.getByText("Approved by admin").waitFor();
    }
    if (name === "login") {
      await page.context().clearCookies();
      await page.evaluate(() => localStorage.clear());
    }
    for (const theme of ["light", "dark"]) {
      for (const viewport of [PHONE, DESKTOP]) {
        await page.emulateMedia({ colorScheme: theme });
        await page.setViewportSize(viewport);
        await page.goto(path);
        await ready();
        // Each viewer of a terminal in turn.
        const takeOver = page.getByRole("button", { name: "Take over" });
        if (name === "terminal" && (await takeOver.isVisible())) await takeOver.click();
        await page.evaluate(() => document.fonts.ready.then(() => null));
        const file = join(out, `${name}-${viewport.width}-${theme}.png`);
        writeFileSync(file, withPalette(await page.screenshot()));
      }
    }
  }
} finally {
  rmSync(directory, { recursive: true, force: true });
  await stage.close();
}
