// A Vite plugin: writes version.json, the list of files for the service worker, and precompressed copies.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin, Rollup } from "vite";

const TEXT = /\.(html|js|css|json|svg|webmanifest)$/;
const SMALLEST_COMPRESSED = 1024;

export function bundleFiles(version: string): Plugin {
  let out = "";
  let shell: string[] = [];
  return {
    name: "bundle-files",
    apply: "build",
    configResolved(config) {
      out = config.build.outDir.startsWith("/")
        ? config.build.outDir
        : join(config.root, config.build.outDir);
    },
    generateBundle(_options, bundle) {
      shell = shellFiles(bundle);
    },
    closeBundle() {
      writeFileSync(join(out, "version.json"), JSON.stringify({ version }) + "\n");
      const worker = join(out, "sw.js");
      const source = readFileSync(worker, "utf8");
      const list = JSON.stringify(["/", ...shell]).slice(1, -1);
      writeFileSync(
        worker,
        source.replace(/["'`]__SHELL_FILES__["'`]/, () => list),
      );
      const files = filesBelow(out, out).sort();
      for (const file of files) compress(join(out, file));
    },
  };
}

/** The files that the app needs before anything is opened; the service worker stores them when it is installed. */
function shellFiles(bundle: Rollup.OutputBundle): string[] {
  const found = new Set<string>();
  const add = (name: string): void => {
    const chunk = bundle[name];
    if (found.has(name) || chunk?.type !== "chunk") return;
    found.add(name);
    for (const style of chunk.viteMetadata?.importedCss ?? []) found.add(style);
    chunk.imports.forEach(add);
  };
  const entry = Object.values(bundle).find(
    (file) => file.type === "chunk" && file.isEntry && file.name === "index",
  );
  if (entry) add(entry.fileName);
  return [...found].sort().map((file) => "/" + file);
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
