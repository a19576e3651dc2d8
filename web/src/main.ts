// Starts the app.
import { mount } from "svelte";
import App from "./App.svelte";
import "./styles/tokens.css";
import "./styles/base.css";
import { workerRegistration } from "./worker-registration.ts";

const target = document.getElementById("app");
if (target) mount(App, { target });
void workerRegistration();
