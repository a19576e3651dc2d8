//! A large file: in pieces, several on their way at once, into a part that takes the file's name when it is complete.
//!
//! What a part holds is worth keeping if it is how the source begins, by their hashes: then the copy goes on behind it.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::end::{End, Kind};
use super::hash::{self, Running};
use super::here::{self, Source};
use super::names;
use super::tally::Tally;
use super::there::There;
use super::wrong::Wrong;

/// How much is on its way in one request.
pub(super) const PIECE: u64 = 1024 * 1024;
/// Pieces that are read, and pieces that are written, before the first of them is answered.
const AHEAD: usize = 6;

/// One large file and where it goes.
#[derive(Debug, Clone)]
pub(super) struct Large {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) size: u64,
    /// The permission bits of the source, where they are known.
    pub(super) mode: Option<u32>,
    /// Whether hashes are compared at the end.
    pub(super) verify: bool,
}

/// How far a part has come: so many bytes, which hash to this.
struct Begun {
    at: u64,
    running: Running,
}

/// Where pieces come from.
#[derive(Clone)]
enum Pieces {
    Here(Arc<Source>),
    There(There, String),
}

/// Where pieces go, in their order.
enum Sink {
    Here(Arc<File>),
    There {
        there: There,
        part: String,
        last_mode: Option<u32>,
        ahead: VecDeque<JoinHandle<Result<(), Wrong>>>,
    },
}

impl Large {
    /// Copies it, going on where an earlier try stopped.
    pub(super) async fn copy(&self, source: &End, target: &End, tally: &Arc<Tally>) -> Result<(), Wrong> {
        let to = self.written_through(target).await?;
        let part = names::part(&to);
        let pieces = self.open(source)?;
        let begun = self.begun(&pieces, target, &part).await?;
        tally.passed(begun.at);
        let mut sink = self.sink(target, &part, begun.at)?;
        let sent = self.send(&pieces, &mut sink, begun, tally).await;
        let running = match (sent, sink.flush().await) {
            (Ok(running), Ok(())) => running,
            (Err(wrong), _) | (_, Err(wrong)) => return Err(wrong),
        };
        if let Pieces::Here(source) = &pieces {
            source.check()?;
        }
        if self.verify {
            self.check(&pieces, target, &part, &running.text()).await?;
        }
        match (target, sink) {
            (End::Here, Sink::Here(file)) => here::place(&file, (&part, &to), self.mode),
            (End::There(there), _) => there.place(&part, &to).await,
            (End::Here, Sink::There { .. }) => Ok(()),
        }
    }

    /// Where the file really goes: a link in its place stays, and what it leads to is replaced.
    async fn written_through(&self, target: &End) -> Result<String, Wrong> {
        match target {
            End::Here => Ok(here::written_through(&self.to)),
            End::There(there) => match there.stat(&self.to).await? {
                Some(found) if found.kind == Kind::Link => {
                    let leads = there.follow(&self.to).await?;
                    leads.map(|(path, _)| path).ok_or_else(|| {
                        Wrong::file(format!("cannot write {}: it is a link that leads nowhere", self.to))
                            .hint("remove the link, or copy to where it should lead")
                    })
                }
                _ => Ok(self.to.clone()),
            },
        }
    }

    fn open(&self, source: &End) -> Result<Pieces, Wrong> {
        match source {
            End::Here => {
                let source = Source::open(&self.from)?;
                match source.meta().size == self.size {
                    true => Ok(Pieces::Here(Arc::new(source))),
                    false => Err(here::changed(&self.from)),
                }
            }
            End::There(there) => Ok(Pieces::There(there.clone(), self.from.clone())),
        }
    }

    /// How much of an earlier try can be kept.
    async fn begun(&self, pieces: &Pieces, target: &End, part: &str) -> Result<Begun, Wrong> {
        let nothing = || Begun { at: 0, running: Running::default() };
        let Some(found) = target.stat(part).await? else { return Ok(nothing()) };
        if found.kind != Kind::File || found.size == 0 || found.size > self.size {
            return Ok(nothing());
        }
        let at = found.size;
        let held = match target {
            End::Here => prefix_here(part.to_owned(), at).await?,
            End::There(there) => match there.hash(part, None).await? {
                hashed if hashed.bytes == at => Some((hashed.text, None)),
                _ => None,
            },
        };
        let begins = match pieces {
            Pieces::Here(source) => prefix_here(source.path.clone(), at).await?,
            Pieces::There(there, path) => match there.hash(path, Some(at)).await? {
                hashed if hashed.bytes == at => Some((hashed.text, None)),
                _ => None,
            },
        };
        match (held, begins) {
            (Some((held, one)), Some((begins, other))) if held == begins => {
                // Of two ends there at least the hash so far is not known here: without it, begin anew.
                Ok(one.or(other).map_or_else(nothing, |running| Begun { at, running }))
            }
            _ => Ok(nothing()),
        }
    }

    fn sink(&self, target: &End, part: &str, at: u64) -> Result<Sink, Wrong> {
        match target {
            End::Here => {
                here::mkdir(names::parent(part))?;
                let file = here::open_part(part, at == 0).map_err(Wrong::here("write", part))?;
                Ok(Sink::Here(Arc::new(file)))
            }
            End::There(there) => Ok(Sink::There {
                there: there.clone(),
                part: part.to_owned(),
                last_mode: self.mode,
                ahead: VecDeque::new(),
            }),
        }
    }

    /// Moves all pieces that are missing; the hash of everything.
    async fn send(
        &self,
        pieces: &Pieces,
        sink: &mut Sink,
        begun: Begun,
        tally: &Arc<Tally>,
    ) -> Result<Running, Wrong> {
        let Begun { mut at, mut running } = begun;
        if at == self.size {
            sink.write(at, Bytes::new(), true).await?;
            return Ok(running);
        }
        let mut read = read_ahead(pieces.clone(), at, self.size);
        while let Some(piece) = read.recv().await {
            let bytes = piece.await??;
            let file = match sink {
                Sink::Here(file) => Some(file.clone()),
                Sink::There { .. } => None,
            };
            let (part, length) = (self.to.clone(), bytes.len() as u64);
            let work = move || {
                running.add(&bytes);
                if let Some(file) = file {
                    file.write_all_at(&bytes, at).map_err(Wrong::here("write", &part))?;
                }
                Ok::<_, Wrong>((running, bytes))
            };
            let (hashed, bytes) = tokio::task::spawn_blocking(work).await??;
            running = hashed;
            sink.write(at, bytes, at + length == self.size).await?;
            at += length;
            tally.passed(length);
        }
        match at == self.size {
            true => Ok(running),
            false => Err(here::changed(&self.from)),
        }
    }

    /// Compares what was put together with the source, or with what was read of it.
    async fn check(&self, pieces: &Pieces, target: &End, part: &str, sent: &str) -> Result<(), Wrong> {
        if let Pieces::There(there, path) = pieces {
            let source = there.hash(path, None).await?;
            if source.text != sent {
                return Err(here::changed(&self.from));
            }
        }
        if let End::There(there) = target {
            let held = there.hash(part, None).await?;
            if held.text != sent {
                target.remove(part).await?;
                let wrong = format!("what arrived in {part} is not what was sent; it was removed");
                return Err(Wrong::file(wrong).hint("does somebody else write it? Copy again").passing());
            }
        }
        Ok(())
    }
}

/// The hash of the first bytes of a file here, as text and to go on with.
async fn prefix_here(path: String, first: u64) -> Result<Option<(String, Option<Running>)>, Wrong> {
    let work = move || {
        let file = File::open(&path).map_err(Wrong::here("read", &path))?;
        hash::of_first(&file, first).map_err(Wrong::here("read", &path))
    };
    let hashed = tokio::task::spawn_blocking(work).await??;
    Ok(hashed.map(|running| (running.text(), Some(running))))
}

/// Reads pieces ahead, and hands them on in their order.
fn read_ahead(pieces: Pieces, from: u64, size: u64) -> mpsc::Receiver<JoinHandle<Result<Bytes, Wrong>>> {
    let (ready, read) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let most = match &pieces {
            Pieces::Here(_) => PIECE,
            Pieces::There(there, _) => PIECE.min(there.most_read()),
        };
        let mut at = from;
        while at < size {
            let length = most.min(size - at);
            let piece = tokio::spawn(pieces.clone().read(at, length));
            // Nobody takes any more once something went wrong.
            if ready.send(piece).await.is_err() {
                return;
            }
            at += length;
        }
    });
    read
}

impl Pieces {
    async fn read(self, at: u64, length: u64) -> Result<Bytes, Wrong> {
        let (bytes, path) = match self {
            Pieces::Here(source) => {
                let work = move || {
                    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
                    match source.file.read_exact_at(&mut bytes, at) {
                        Ok(()) => Ok((Bytes::from(bytes), source.path.clone())),
                        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                            Err(here::changed(&source.path))
                        }
                        Err(error) => Err(Wrong::here("read", &source.path)(error)),
                    }
                };
                tokio::task::spawn_blocking(work).await??
            }
            Pieces::There(there, path) => (there.read(&path, at, length).await?, path),
        };
        match bytes.len() as u64 == length {
            true => Ok(bytes),
            false => Err(here::changed(&path)),
        }
    }
}

impl Sink {
    /// Puts the next piece in line; waits only if too many are on their way.
    async fn write(&mut self, at: u64, bytes: Bytes, is_last: bool) -> Result<(), Wrong> {
        let Sink::There { there, part, last_mode, ahead } = self else { return Ok(()) };
        while ahead.len() >= AHEAD {
            if let Some(oldest) = ahead.pop_front() {
                oldest.await??;
            }
        }
        // The first piece replaces what an earlier try left; nobody else may read it before it has its mode.
        let how = if at == 0 { "replace" } else { "append" };
        let mode = if is_last { *last_mode } else { Some(0o600) };
        let (there, part) = (there.clone(), part.clone());
        // Tasks start in the order they are made, and their first step puts them in line.
        ahead.push_back(tokio::spawn(async move { there.write(&part, &bytes, how, mode).await }));
        Ok(())
    }

    /// Waits until everything has arrived.
    async fn flush(&mut self) -> Result<(), Wrong> {
        let Sink::There { ahead, .. } = self else { return Ok(()) };
        let mut all = Ok(());
        for piece in std::mem::take(ahead) {
            let piece = piece.await.map_err(Wrong::from).and_then(|written| written);
            all = all.and(piece);
        }
        all
    }
}
