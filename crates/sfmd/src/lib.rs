//! The document language of stringd as pure functions: no files, no clock, no tasks.
//!
//! A document is Markdown with frontmatter, marked blocks, menus, includes, shortcuts and actions. This crate parses it,
//! renders it for a reader, and turns an invocation of an action into a shell command or an HTTP request. The caller loads
//! files and pages, runs what was prepared, and carries out the steps of a response template.
//!
//! | task | module |
//! |---|---|
//! | a command | [`command`], [`assign`] |
//! | a document | [`document`], [`frontmatter`], [`block`], [`menu`], [`mod@include`], [`trinity`] |
//! | what the reader sees | [`render`], [`html`], [`diff`], [`edit`], [`scaffold`] |
//! | an action | [`action`], [`flags`], [`invoke`], [`template`], [`json`] |
//! | addresses and quoting | [`uri`], [`quote`] |
//!
//! Every function takes time linear in its input, except [`diff`], whose search is bounded. No input causes a panic.
//!
//! ```
//! let document = sfmd::document::Document::parse("# Shop\nSee [@terms Terms](./terms.md).".to_owned());
//! let view = sfmd::render::document(&document, None);
//! assert_eq!(view.text, "# Shop\nSee [Terms][@terms].");
//! assert_eq!(document.shortcuts()[0].href(), "./terms.md");
//! ```

pub mod action;
pub mod assign;
pub mod block;
pub mod command;
pub mod diff;
pub mod document;
pub mod edit;
pub mod flags;
pub mod frontmatter;
pub mod html;
pub mod include;
mod inline;
pub mod invoke;
pub mod json;
mod map;
pub mod menu;
pub mod quote;
pub mod render;
pub mod scaffold;
mod scan;
mod shell;
pub mod shortcut;
pub mod template;
pub mod trinity;
pub mod uri;
