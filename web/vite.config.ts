// Builds the bundle that rexhub embeds: hashed names below assets/, and precompressed copies beside the files.
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { bundleFiles } from "./build/bundle-files.ts";
import { texts } from "./src/texts.ts";

const version = process.env.REX_WEB_VERSION ?? "dev";

export default defineConfig({
  plugins: [svelte(), bundleFiles(version)],
  define: { __BUNDLE_VERSION__: JSON.stringify(version), __NOTICE_TEXTS__: JSON.stringify(texts.notices) },
  build: {
    outDir: process.env.REX_WEB_OUT ?? "../crates/hub/src/web/dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    // A data: URL of a font or image would need a wider content security policy.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 700,
    rollupOptions: {
      input: { index: "index.html", sw: "src/service-worker.ts" },
      output: {
        entryFileNames: (chunk) => (chunk.name === "sw" ? "sw.js" : "assets/[name]-[hash].js"),
        chunkFileNames: "assets/[name]-[hash].js",
        assetFileNames: "assets/[name]-[hash][extname]",
      },
    },
  },
});
