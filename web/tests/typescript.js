// Lets Node run the TypeScript modules under test: types are removed, nothing else changes.
import { register } from "node:module";

register("./typescript-loader.js", import.meta.url);
