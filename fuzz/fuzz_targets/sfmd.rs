//! Any text is a document, a page, a command and a template, and none of them causes a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sfmd::document::Document;
use sfmd::flags::Invocation;
use sfmd::invoke::Bindings;
use sfmd::json::Json;
use sfmd::menu::Menu;
use sfmd::template::ActionResponse;

struct Unbound;

impl Bindings for Unbound {
    fn variable(&self, name: &str) -> Option<String> {
        (name.len() == 1).then(|| format!("'{name}\"$(x)"))
    }
    fn shortcut(&self, _: &str) -> Option<String> {
        None
    }
    fn environment(&self, name: &str) -> Option<String> {
        (name.len() == 1).then(|| name.to_owned())
    }
    fn file(&self, _: &str) -> Result<Vec<u8>, String> {
        Ok(vec![0xff])
    }
}

fuzz_target!(|input: (&str, &str)| {
    let (text, args) = input;
    let mut document = Document::parse(text.to_owned());
    document.link(&[Menu::parse("m", args, "file:///srv/m.md")]);
    sfmd::render::document(&document, None);
    for id in document.blocks() {
        sfmd::render::block(&document, id);
        if let Some(edited) = sfmd::edit::replace_block(text, id, args) {
            drop(sfmd::edit::tail(text, &edited, &sfmd::diff::DiffOptions::default()));
        }
    }
    for action in document.actions() {
        if let Ok(Invocation::Run(flags)) = sfmd::flags::parse(action, args)
            && let Ok(payload) = sfmd::invoke::payload(action, flags, &Unbound)
        {
            sfmd::invoke::files(action, &payload, &Unbound);
            drop(sfmd::invoke::prepare(action, &payload, &Unbound));
        }
    }
    let body = Json::parse(args).unwrap_or(Json::String(args.to_owned()));
    sfmd::template::apply(text, &ActionResponse { status: 0, body }, &Vec::new(), &Unbound);
    sfmd::include::expand(document.body(), args, &Default::default());
    sfmd::trinity::sources(text);
    sfmd::html::to_markdown(text);
    sfmd::assign::parse(args, Some(text));
    sfmd::diff::lines(text, args, &sfmd::diff::DiffOptions::default());
    sfmd::uri::resolve(text, Some(args));
    drop(sfmd::command::parse(text));
});
