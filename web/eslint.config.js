// Lints for TypeScript and Svelte.
import svelte from "eslint-plugin-svelte";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["node_modules", "test-results"] },
  ...tseslint.configs.recommended,
  ...svelte.configs.recommended,
  {
    files: ["**/*.svelte", "**/*.svelte.ts"],
    languageOptions: { parserOptions: { parser: tseslint.parser } },
  },
  {
    rules: {
      eqeqeq: "error",
      "no-eval": "error",
      "no-console": "error",
      "max-lines": ["error", 400],
      "@typescript-eslint/no-non-null-assertion": "error",
      "svelte/no-at-html-tags": "error",
      "svelte/require-each-key": "error",
      // Addresses are plain paths of the hub; there is no SvelteKit.
      "svelte/no-navigation-without-resolve": "off",
      // Maps and sets here are not reactive state; the store replaces values.
      "svelte/prefer-svelte-reactivity": "off",
    },
  },
  // Every text of the app is in this one file.
  { files: ["src/texts.ts"], rules: { "max-lines": ["error", 500] } },
  { files: ["tests/**"], rules: { "no-console": "off" } },
);
