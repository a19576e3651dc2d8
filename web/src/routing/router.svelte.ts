// The current address as reactive state; links inside the app change it without loading the page.
import { type Route, parseAddress } from "./address.ts";

class Router {
  route: Route = $state(parseAddress(location.pathname, location.search));

  constructor() {
    window.addEventListener("popstate", () => this.read());
    document.addEventListener("click", (event) => this.followLink(event));
  }

  go(address: string, options: { replace?: boolean } = {}): void {
    if (options.replace) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
    this.read();
    if (!options.replace) window.scrollTo(0, 0);
  }

  private read(): void {
    this.route = parseAddress(location.pathname, location.search);
  }

  private followLink(event: MouseEvent): void {
    if (
      event.defaultPrevented ||
      event.button !== 0 ||
      event.metaKey ||
      event.ctrlKey ||
      event.shiftKey ||
      event.altKey
    )
      return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    const route = parseAddress(link.pathname, link.search);
    if (route.screen === "unknown") return;
    event.preventDefault();
    this.go(link.pathname + link.search);
  }
}

export const router = new Router();
