// CodeMirror as the app uses it: a file to read, which becomes editable on demand.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { HighlightStyle, bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { languageOf } from "./languages.ts";

export interface EditorOptions {
  path: string;
  text: string;
  line: number | null;
  isDark: boolean;
  label: string;
  /** The id of the element that describes the keys. */
  describedBy: string;
}

export interface EditorHandlers {
  changed: (text: string) => void;
  save: () => void;
}

export interface Editor {
  text(): string;
  setText(text: string): void;
  setEditable(isEditable: boolean): void;
  setDark(isDark: boolean): void;
  focus(): void;
  destroy(): void;
}

export async function createEditor(
  parent: HTMLElement,
  options: EditorOptions,
  { changed, save }: EditorHandlers,
): Promise<Editor> {
  const [editable, theme] = [new Compartment(), new Compartment()];
  const language = await languageOf(options.path);
  const state = EditorState.create({
    doc: options.text,
    extensions: [
      lineNumbers(),
      history(),
      bracketMatching(),
      highlightSelectionMatches(),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({
        "aria-label": options.label,
        "aria-describedby": options.describedBy,
      }),
      leaveByTab(),
      keymap.of([{ key: "Mod-s", run: () => (save(), true), preventDefault: true }]),
      keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap, indentWithTab]),
      syntaxHighlighting(COLORS),
      language,
      editable.of(editableExtensions(false)),
      theme.of(themeExtension(options.isDark)),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) changed(update.state.doc.toString());
      }),
    ],
  });
  const view = new EditorView({ state, parent });
  if (options.line !== null) showLine(view, options.line);
  return {
    text: () => view.state.doc.toString(),
    setText: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    setEditable: (isEditable) =>
      view.dispatch({ effects: editable.reconfigure(editableExtensions(isEditable)) }),
    setDark: (isDark) => view.dispatch({ effects: theme.reconfigure(themeExtension(isDark)) }),
    focus: () => {
      view.focus();
      view.setTabFocusMode(false);
    },
    destroy: () => view.destroy(),
  };
}

function editableExtensions(isEditable: boolean) {
  // A file that is only read stays reachable by keyboard.
  const attributes = EditorView.contentAttributes.of({ tabindex: "0", "aria-readonly": String(!isEditable) });
  return [
    EditorView.editable.of(isEditable),
    EditorState.readOnly.of(!isEditable),
    isEditable ? highlightActiveLine() : [],
    attributes,
  ];
}

/**
 * Tab indents once something was typed or clicked; before, and after Escape, it moves the focus, so that the text is no trap.
 * CodeMirror's own Escape has a time limit.
 */
function leaveByTab() {
  const leave = (view: EditorView) => {
    view.setTabFocusMode(true);
    return false;
  };
  return [
    keymap.of([{ key: "Escape", run: leave }]),
    EditorView.domEventHandlers({
      focus: (_event, view) => view.setTabFocusMode(true),
      click: (_event, view) => view.setTabFocusMode(false),
    }),
    EditorView.updateListener.of(({ view, transactions }) => {
      if (transactions.some((one) => one.isUserEvent("input"))) view.setTabFocusMode(false);
    }),
  ];
}

function showLine(view: EditorView, line: number): void {
  const { from } = view.state.doc.line(Math.min(Math.max(1, line), view.state.doc.lines));
  view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
}

const themeExtension = (isDark: boolean) =>
  EditorView.theme(
    {
      "&": { height: "100%", backgroundColor: "var(--surface)", color: "var(--text)", fontSize: "13px" },
      ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
      ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--muted)", border: "0" },
      ".cm-activeLine": { backgroundColor: "var(--sunken)" },
      ".cm-cursor": { borderLeftColor: "var(--text)" },
      ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": {
        backgroundColor: "var(--accent-soft) !important",
      },
    },
    { dark: isDark },
  );

const COLORS = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier], color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--success)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--warning)" },
  { tag: [tags.comment, tags.meta], color: "var(--muted)", fontStyle: "italic" },
  { tag: [tags.typeName, tags.className, tags.heading], fontWeight: "600" },
  { tag: [tags.definition(tags.variableName), tags.function(tags.variableName)], fontWeight: "600" },
  { tag: tags.invalid, color: "var(--danger)" },
]);
