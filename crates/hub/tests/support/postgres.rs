//! A PostgreSQL server whose URLs are the hub's.

use std::path::{Path, PathBuf};

use hub::store::DatabaseUrl;
use testkit::postgres::{SOCKET, url_at};

/// A running server; it ends with this value, and with its test.
pub(crate) struct Postgres(testkit::postgres::Postgres);

impl Postgres {
    pub(crate) fn start() -> Postgres {
        Postgres(testkit::postgres::Postgres::start())
    }

    /// The name of a new database.
    pub(crate) fn database(&self) -> String {
        self.0.database()
    }

    /// The URL of a database as text.
    pub(crate) fn url_text(&self, database: &str) -> String {
        self.0.url(database)
    }

    /// The unix socket of the server.
    pub(crate) fn socket(&self) -> PathBuf {
        self.0.socket()
    }

    /// The URL of a database behind a proxy whose socket is in this directory.
    pub(crate) fn url_through(&self, database: &str, directory: &Path) -> DatabaseUrl {
        std::os::unix::fs::symlink("proxy.sock", directory.join(SOCKET)).unwrap();
        url_at(database, directory).parse().unwrap()
    }

    /// The URL of a database.
    pub(crate) fn url(&self, database: &str) -> DatabaseUrl {
        self.url_text(database).parse().unwrap()
    }

    /// Ends every connection to a database. Returns how many.
    pub(crate) fn cut(&self, database: &str) -> usize {
        self.0.cut(database)
    }
}
