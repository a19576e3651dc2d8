//! Writes, watches, edits, searches and removes files on a target.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use client::{Session, SessionOptions, Target, v1};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target: Target = std::env::args().nth(1).as_deref().unwrap_or("local").parse()?;
    let session = Session::open(target, SessionOptions::default()).await?;
    let files = session.files();
    files.mkdir("example-of-files", true).await?;
    let mut watch = files.watch("example-of-files", true).await?;
    files.write("example-of-files/greeting.txt", b"hello\n").await?;
    if let Some(event) = watch.next().await {
        for change in event.changed?.changes {
            println!("{} {}", change.kind, change.path.rsplit('/').next().unwrap_or_default());
        }
    }
    watch.stop().await?;
    let edit = v1::FsEdit {
        path: "example-of-files/greeting.txt".to_owned(),
        old_string: "hello".to_owned(),
        new_string: "hello there".to_owned(),
        ..v1::FsEdit::default()
    };
    files.edit(edit).await?;
    print!("{}", String::from_utf8(files.read_all("example-of-files/greeting.txt").await?)?);
    let grep = v1::FsGrep {
        pattern: "there".to_owned(),
        path: Some("example-of-files".to_owned()),
        ..v1::FsGrep::default()
    };
    println!("{} match", files.grep(grep).await?.matches.len());
    files.remove("example-of-files", true).await?;
    session.close().await?;
    Ok(())
}
