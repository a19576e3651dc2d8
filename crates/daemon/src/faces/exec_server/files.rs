//! Files: whole ones read and written, trees made, copied and removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::files::{self, CopyOptions, Durability, ReadRange, ScanBudget, WriteOptions};
use engine::{Error, RootedPath, Roots};
use tokio::sync::RwLock;
use wire::exec_server::v1::{self, Done, FileSystemSandboxContext};
use wire::exec_server::{ErrorObject, code};

use super::answer::Answer;
use super::errors::failed;
use super::paths::native;
use super::session::Session;

/// The largest file that is read whole.
const MOST_READ: u64 = 512 * 1024 * 1024;

impl Session {
    /// The roots as a call with this sandbox sees them.
    pub(super) fn roots(&mut self, sandbox: Option<&FileSystemSandboxContext>) -> Result<Roots, ErrorObject> {
        let runtime_policy = self.service.runtime_policy.current();
        let confinement = self.confinement(&runtime_policy, sandbox, None)?;
        let roots = match confinement {
            Some(confinement) => self.service.roots.guarded(confinement),
            None => self.service.roots.clone(),
        };
        Ok(self.ruled(roots, &runtime_policy, Vec::new()))
    }

    /// The path that a call names, as far as it may be touched.
    pub(super) fn path(
        &mut self,
        text: &str,
        sandbox: Option<&FileSystemSandboxContext>,
    ) -> Result<RootedPath, ErrorObject> {
        let path = native(text)?;
        self.roots(sandbox)?.admit(Path::new("/"), &path).map_err(failed)
    }

    /// Looks at files on a thread that may wait for a disk, together with others that look.
    pub(super) fn look<T: serde::Serialize + Send + 'static>(
        &self,
        answer: Answer,
        work: impl FnOnce() -> Result<T, ErrorObject> + Send + 'static,
    ) {
        let order = self.order.clone();
        self.spawn(async move {
            let _turn = order.read_owned().await;
            answer.send(blocking(work).await).await;
        });
    }

    /// Changes files on such a thread, alone.
    pub(super) fn change<T: serde::Serialize + Send + 'static>(
        &self,
        answer: Answer,
        work: impl FnOnce() -> Result<T, ErrorObject> + Send + 'static,
    ) {
        let order: Arc<RwLock<()>> = self.order.clone();
        self.spawn(async move {
            let _turn = order.write_owned().await;
            answer.send(blocking(work).await).await;
        });
    }

    /// `fs/readFile`.
    pub(super) fn read_file(&mut self, params: v1::FsReadFileParams, mut answer: Answer) {
        let path = match self.path(&params.path, params.sandbox.as_ref()) {
            Ok(path) => path,
            Err(error) => return self.reply(answer, Err::<(), _>(error)),
        };
        let follows = params.follow_symlinks.unwrap_or(true);
        let order = self.order.clone();
        self.spawn(async move {
            let _turn = order.read_owned().await;
            let cached = if follows { files::read_cached(&path, ReadRange::whole(MOST_READ)) } else { None };
            let id = answer.id().clone();
            let encode = move |read: Result<files::FileContent, Error>| {
                let content = read.map_err(failed)?;
                if content.more {
                    let limit = format!("the file is larger than {MOST_READ} bytes");
                    return Err(ErrorObject::invalid_request(limit));
                }
                Ok(v1::encode_file(&id, &content.bytes))
            };
            let response = match cached {
                Some(read) => encode(read),
                None => {
                    let sized = path.clone();
                    let size = blocking(move || Ok(files::stat_followed(&sized).ok().flatten())).await;
                    // Once as it is, once as text. What cannot be looked at says so when it is read.
                    let bytes = size.ok().flatten().map_or(0, |(found, _)| found.size.saturating_mul(3));
                    answer.afford(bytes).await;
                    let read = move || {
                        check_links(&path, follows)?;
                        encode(files::read(&path, ReadRange::whole(MOST_READ)))
                    };
                    blocking(read).await
                }
            };
            match response {
                Ok(response) => answer.send_raw(response).await,
                Err(error) => answer.send(Err::<(), _>(error)).await,
            }
        });
    }

    /// `fs/writeFile`: others see the old content or the new. Nothing is forced to disk, as the protocol promises nothing.
    pub(super) fn write_file(&mut self, params: v1::FsWriteFileParams, answer: Answer) {
        let path = match self.path(&params.path, params.sandbox.as_ref()) {
            Ok(path) => path,
            Err(error) => return self.reply(answer, Err::<(), _>(error)),
        };
        self.change(answer, move || {
            let bytes = wire::base64::decode(&params.data_base64)
                .map_err(|error| ErrorObject::invalid_request(format!("dataBase64: {error}")))?;
            check_links(&path, params.follow_symlinks.unwrap_or(true))?;
            let options = WriteOptions { durability: Durability::Relaxed, ..WriteOptions::default() };
            files::write(&path, &bytes, &options).map(|_written| Done {}).map_err(failed)
        });
    }

    /// `fs/createDirectory`.
    pub(super) fn create_directory(&mut self, params: v1::FsCreateDirectoryParams, answer: Answer) {
        let path = match self.path(&params.path, params.sandbox.as_ref()) {
            Ok(path) => path,
            Err(error) => return self.reply(answer, Err::<(), _>(error)),
        };
        self.change(answer, move || {
            check_links(&path, params.follow_symlinks.unwrap_or(true))?;
            files::make_directory(&path, params.recursive.unwrap_or(true)).map(|()| Done {}).map_err(failed)
        });
    }

    /// `fs/remove`: a link goes, never what it leads to.
    pub(super) fn remove(&mut self, params: v1::FsRemoveParams, answer: Answer) {
        let path = match self.path(&params.path, params.sandbox.as_ref()) {
            Ok(path) => path,
            Err(error) => return self.reply(answer, Err::<(), _>(error)),
        };
        let recursive = params.recursive.unwrap_or(true);
        self.change(answer, move || {
            check_parents(&path, params.follow_symlinks.unwrap_or(true))?;
            match files::remove(&path, recursive, &ScanBudget::unbounded()).map_err(failed) {
                Err(error) if error.code == code::NOT_FOUND && params.force.unwrap_or(true) => Ok(Done {}),
                removed => removed.map(|()| Done {}),
            }
        });
    }

    /// `fs/copy`: links as links, into what is there, and through a link that is there.
    pub(super) fn copy(&mut self, params: v1::FsCopyParams, answer: Answer) {
        let from = self.path(&params.source_path, params.sandbox.as_ref());
        let to = self.path(&params.destination_path, params.sandbox.as_ref());
        let (from, to) = match (from, to) {
            (Ok(from), Ok(to)) => (from, to),
            (Err(error), _) | (_, Err(error)) => return self.reply(answer, Err::<(), _>(error)),
        };
        self.change(answer, move || {
            let options = CopyOptions {
                recursive: params.recursive,
                overwrite: true,
                skip_special: true,
                follows: true,
            };
            files::copy(&from, &to, options, &ScanBudget::unbounded()).map(|()| Done {}).map_err(failed)
        });
    }
}

/// Does work on a thread that may wait for a disk.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ErrorObject> + Send + 'static,
) -> Result<T, ErrorObject> {
    let given_up = |_ended| Err(ErrorObject::internal("the daemon ends"));
    tokio::task::spawn_blocking(work).await.unwrap_or_else(given_up)
}

/// Refuses a path with a link in it, for those who follow none.
pub(super) fn check_links(path: &RootedPath, follows: bool) -> Result<(), ErrorObject> {
    check(path, follows, RootedPath::real)
}

/// The same for somebody who means the name itself.
fn check_parents(path: &RootedPath, follows: bool) -> Result<(), ErrorObject> {
    check(path, follows, RootedPath::entry)
}

fn check(
    path: &RootedPath,
    follows: bool,
    leads: impl Fn(&RootedPath) -> Result<PathBuf, Error>,
) -> Result<(), ErrorObject> {
    if follows || leads(path).map_err(failed)? == path.as_path() {
        return Ok(());
    }
    Err(ErrorObject::invalid_request(format!("{} has a link in it", path.as_path().display())))
}
