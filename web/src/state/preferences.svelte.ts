// Settings of this device: theme, size of the terminal's font, key bar.

export type Theme = "system" | "light" | "dark";

const KEY = "preferences";

interface Values {
  theme: Theme;
  fontSize: number;
  keyBar: "auto" | "always";
}

const DEFAULTS: Values = { theme: "system", fontSize: 14, keyBar: "auto" };

class Preferences {
  theme: Theme = $state(DEFAULTS.theme);
  fontSize: number = $state(DEFAULTS.fontSize);
  keyBar: "auto" | "always" = $state(DEFAULTS.keyBar);
  private systemIsDark = $state(false);

  constructor() {
    const query = window.matchMedia("(prefers-color-scheme: dark)");
    this.systemIsDark = query.matches;
    query.addEventListener("change", () => (this.systemIsDark = query.matches));
    const saved = read();
    this.theme = saved.theme;
    this.fontSize = saved.fontSize;
    this.keyBar = saved.keyBar;
  }

  get isDark(): boolean {
    return this.theme === "dark" || (this.theme === "system" && this.systemIsDark);
  }

  save(): void {
    const values: Values = { theme: this.theme, fontSize: this.fontSize, keyBar: this.keyBar };
    try {
      localStorage.setItem(KEY, JSON.stringify(values));
    } catch {
      // Storage is switched off: the settings hold until the page is closed.
    }
  }
}

function read(): Values {
  try {
    return { ...DEFAULTS, ...(JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Values>) };
  } catch {
    return DEFAULTS;
  }
}

export const preferences = new Preferences();
