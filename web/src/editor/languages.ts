// The highlighting for a file name, loaded when such a file is opened.
import { StreamLanguage } from "@codemirror/language";
import type { Extension } from "@codemirror/state";

const LOADERS: [RegExp, () => Promise<Extension>][] = [
  [
    /\.(m?[jt]sx?|cjs|svelte|vue)$/,
    async () => (await import("@codemirror/lang-javascript")).javascript({ typescript: true, jsx: true }),
  ],
  [/\.(py|pyi)$/, async () => (await import("@codemirror/lang-python")).python()],
  [/\.rs$/, async () => (await import("@codemirror/lang-rust")).rust()],
  [/\.(json|webmanifest|jsonc)$/, async () => (await import("@codemirror/lang-json")).json()],
  [/\.(md|markdown)$/, async () => (await import("@codemirror/lang-markdown")).markdown()],
  [/\.(html?|xml|svg)$/, async () => (await import("@codemirror/lang-html")).html()],
  [/\.(css|scss)$/, async () => (await import("@codemirror/lang-css")).css()],
  [
    /\.(sh|bash|zsh|profile|bashrc)$/,
    async () => StreamLanguage.define((await import("@codemirror/legacy-modes/mode/shell")).shell),
  ],
  [
    /\.toml$|(^|\/)Cargo\.lock$/,
    async () => StreamLanguage.define((await import("@codemirror/legacy-modes/mode/toml")).toml),
  ],
  [/\.ya?ml$/, async () => StreamLanguage.define((await import("@codemirror/legacy-modes/mode/yaml")).yaml)],
  [/\.go$/, async () => StreamLanguage.define((await import("@codemirror/legacy-modes/mode/go")).go)],
  [
    /\.(c|h|cc|cpp|hpp|java|kt|cs)$/,
    async () => StreamLanguage.define((await import("@codemirror/legacy-modes/mode/clike")).cpp),
  ],
  [
    /\.(diff|patch)$/,
    async () => StreamLanguage.define((await import("@codemirror/legacy-modes/mode/diff")).diff),
  ],
  [
    /(^|\/)Dockerfile$/,
    async () => StreamLanguage.define((await import("@codemirror/legacy-modes/mode/dockerfile")).dockerFile),
  ],
];

export async function languageOf(path: string): Promise<Extension> {
  const loader = LOADERS.find(([pattern]) => pattern.test(path));
  try {
    return loader ? await loader[1]() : [];
  } catch {
    // Without a connection the file is shown without colours.
    return [];
  }
}
