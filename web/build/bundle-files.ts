// A Vite plugin: writes version.json, the list of files for the service worker, and precompressed copies.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin, Rollup } from "vite";

const TEXT = /\.(html|js|css|json|svg|webmanifest)$/;
const SMALLEST_COMPRESSED = 1024;

export function bundleFiles(version: string): Plugin {
  let out = "";
  let files: { shell: string[]; screens: string[] } = { shell: [], screens: [] };
  return {
    name: "bundle-files",
    apply: "build",
    configResolved(config) {
      out = config.build.outDir.startsWith("/")
        ? config.build.outDir
        : join(config.root, config.build.outDir);
    },
    generateBundle(_options, bundle) {
      files = workerFiles(bundle);
    },
    closeBundle() {
      writeFileSync(join(out, "version.json"), JSON.stringify({ version }) + "\n");
      const worker = join(out, "sw.js");
      const source = readFileSync(worker, "utf8");
      const list = (paths: string[]) => JSON.stringify(paths).slice(1, -1);
      writeFileSync(
        worker,
        source
          .replace(/["'`]__SHELL_FILES__["'`]/, () => list(["/", ...files.shell]))
          .replace(/["'`]__SCREEN_FILES__["'`]/, () => list(files.screens)),
      );
      for (const file of filesBelow(out, out).sort()) compress(join(out, file));
    },
  };
}

/** Large parts that are not needed to open a screen: the editor, its languages, and drawing with WebGL. */
const NOT_STORED = /\/src\/editor\/|\/(@codemirror|@lezer)\/|\/addon-webgl\//;

/**
 * The files that the service worker stores: those that the app needs before anything is opened, when it is installed; and those
 * of the screens, in the background.
 */
function workerFiles(bundle: Rollup.OutputBundle): { shell: string[]; screens: string[] } {
  const closure = (names: string[], withScreens: boolean): Set<string> => {
    const found = new Set<string>();
    const add = (name: string): void => {
      const chunk = bundle[name];
      if (found.has(name) || chunk?.type !== "chunk") return;
      if (chunk.moduleIds.some((id) => NOT_STORED.test(id))) return;
      found.add(name);
      for (const style of chunk.viteMetadata?.importedCss ?? []) found.add(style);
      chunk.imports.forEach(add);
      if (withScreens) chunk.dynamicImports.forEach(add);
    };
    names.forEach(add);
    return found;
  };
  const entry = Object.values(bundle).find(
    (file) => file.type === "chunk" && file.isEntry && file.name === "index",
  );
  const names = entry ? [entry.fileName] : [];
  const shell = closure(names, false);
  const screens = [...closure(names, true)].filter((name) => !shell.has(name));
  const paths = (found: Iterable<string>) => [...found].sort().map((file) => "/" + file);
  return { shell: paths(shell), screens: paths(screens) };
}

function filesBelow(root: string, directory: string): string[] {
  return readdirSync(directory).flatMap((name) => {
    const path = join(directory, name);
    return statSync(path).isDirectory() ? filesBelow(root, path) : [relative(root, path)];
  });
}

function compress(path: string): void {
  if (!TEXT.test(path)) return;
  const content = readFileSync(path);
  if (content.length < SMALLEST_COMPRESSED) return;
  const options = {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
      [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
    },
  };
  writeFileSync(path + ".br", brotliCompressSync(content, options));
  writeFileSync(path + ".gz", gzipSync(content, { level: 9 }));
}
